# Sends, receives, keeps and deletes messages with the AWS command line. Arguments: aws, the URL of the server.
set -eu
command=$1
url=$2
sqs() { "$command" --endpoint-url "$url" --output text sqs "$@"; }

queue=$(sqs create-queue --queue-name orders --attributes VisibilityTimeout=600 --query QueueUrl)
sqs send-message --queue-url "$queue" --message-body one \
  --message-attributes '{"colour": {"DataType": "String", "StringValue": "blue"}}' > sent
sqs send-message-batch --queue-url "$queue" \
  --entries '[{"Id": "a", "MessageBody": "two"}, {"Id": "b", "MessageBody": "three"}]' > sent
sqs receive-message --queue-url "$queue" --max-number-of-messages 10 --wait-time-seconds 1 --message-attribute-names All \
  --query 'Messages[].[Body, length(keys(MessageAttributes || `{}`)), ReceiptHandle]' > received
while read -r body attributes handle; do
  echo "received $body $attributes"
  sqs change-message-visibility --queue-url "$queue" --receipt-handle "$handle" --visibility-timeout 60
  sqs delete-message --queue-url "$queue" --receipt-handle "$handle"
done < received
sqs get-queue-url --queue-name nothing 2> error || grep -q NonExistentQueue error && echo missing
