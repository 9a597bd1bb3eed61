// Sends, receives, keeps and deletes messages with the AWS SDK for JavaScript. Arguments: the URL of the server.

const {
  ChangeMessageVisibilityCommand,
  CreateQueueCommand,
  DeleteMessageCommand,
  GetQueueUrlCommand,
  QueueDoesNotExist,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  SQSClient,
} = require("@aws-sdk/client-sqs");

async function main(endpoint) {
  const credentials = { accessKeyId: "key", secretAccessKey: "secret" };
  const sqs = new SQSClient({ endpoint, region: "us-east-1", credentials });
  const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName: "orders" }));
  const MessageAttributes = { colour: { DataType: "String", StringValue: "blue" } };
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "one", MessageAttributes }));
  const Entries = [
    { Id: "a", MessageBody: "two" },
    { Id: "b", MessageBody: "three" },
  ];
  await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  const wanted = { QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, MessageAttributeNames: ["All"] };
  const { Messages } = await sqs.send(new ReceiveMessageCommand(wanted));
  for (const { Body, MessageAttributes: attributes, ReceiptHandle } of Messages) {
    console.log(`received ${Body} ${Object.keys(attributes ?? {}).length}`);
    await sqs.send(new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 60 }));
    await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
  }
  try {
    await sqs.send(new GetQueueUrlCommand({ QueueName: "nothing" }));
  } catch (error) {
    if (!(error instanceof QueueDoesNotExist)) throw error;
    console.log("missing");
  }
}

main(process.argv[2]);
