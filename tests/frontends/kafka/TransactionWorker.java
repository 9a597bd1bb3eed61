import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Copies a topic to another in transactions with the group's place, aborting each one once before it commits. */
public class TransactionWorker {
    public static void main(String[] arguments) {
        String address = arguments[0];
        int count = Integer.parseInt(arguments[1]);
        Properties producing = new Properties();
        producing.put("bootstrap.servers", address);
        producing.put("transactional.id", "copier");
        producing.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        producing.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        Properties consuming = new Properties();
        consuming.put("bootstrap.servers", address);
        consuming.put("group.id", "copiers");
        consuming.put("auto.offset.reset", "earliest");
        consuming.put("enable.auto.commit", "false");
        consuming.put("isolation.level", "read_committed");
        consuming.put("max.poll.records", "20");
        consuming.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        consuming.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(consuming);
                KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(producing)) {
            producer.initTransactions();
            consumer.subscribe(List.of("orders"));
            int copied = 0;
            while (copied < count) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(1));
                if (records.isEmpty()) {
                    continue;
                }
                for (boolean commit : new boolean[] {false, true}) {
                    producer.beginTransaction();
                    for (ConsumerRecord<byte[], byte[]> record : records) {
                        producer.send(new ProducerRecord<>("copies", record.key(), record.value()));
                    }
                    producer.sendOffsetsToTransaction(records.nextOffsets(), consumer.groupMetadata());
                    if (commit) {
                        producer.commitTransaction();
                    } else {
                        producer.abortTransaction();
                    }
                }
                copied += records.count();
            }
            System.out.println(copied);
        }
    }
}
