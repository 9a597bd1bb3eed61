// Sends, receives, keeps and deletes messages with the AWS SDK for Java. Arguments: the URL of the server.

import java.net.URI;
import java.util.Map;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.MessageAttributeValue;
import software.amazon.awssdk.services.sqs.model.QueueDoesNotExistException;
import software.amazon.awssdk.services.sqs.model.SendMessageBatchRequestEntry;

public class Main {
    public static void main(String[] arguments) {
        var credentials = StaticCredentialsProvider.create(AwsBasicCredentials.create("key", "secret"));
        try (SqsClient sqs = SqsClient.builder()
                .endpointOverride(URI.create(arguments[0]))
                .region(Region.US_EAST_1)
                .credentialsProvider(credentials)
                .httpClient(UrlConnectionHttpClient.create())
                .build()) {
            String queue = sqs.createQueue(request -> request.queueName("orders")).queueUrl();
            var blue = MessageAttributeValue.builder().dataType("String").stringValue("blue").build();
            sqs.sendMessage(request -> request.queueUrl(queue).messageBody("one").messageAttributes(Map.of("colour", blue)));
            sqs.sendMessageBatch(request -> request.queueUrl(queue).entries(
                    SendMessageBatchRequestEntry.builder().id("a").messageBody("two").build(),
                    SendMessageBatchRequestEntry.builder().id("b").messageBody("three").build()));
            var messages = sqs.receiveMessage(request -> request.queueUrl(queue)
                    .maxNumberOfMessages(10).waitTimeSeconds(1).messageAttributeNames("All")).messages();
            for (var message : messages) {
                System.out.println("received " + message.body() + " " + message.messageAttributes().keySet().size());
                sqs.changeMessageVisibility(request -> request.queueUrl(queue)
                        .receiptHandle(message.receiptHandle()).visibilityTimeout(60));
                sqs.deleteMessage(request -> request.queueUrl(queue).receiptHandle(message.receiptHandle()));
            }
            try {
                sqs.getQueueUrl(request -> request.queueName("nothing"));
            } catch (QueueDoesNotExistException missing) {
                System.out.println("missing");
            }
        }
    }
}
