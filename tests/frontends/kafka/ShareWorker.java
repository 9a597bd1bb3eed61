// A worker of a share group, by Kafka's own client: what each record is answered with depends on its offset.
//
//     java -cp 'jars/*' ShareWorker.java ADDRESS COUNT     prints how many it has settled

import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

public class ShareWorker {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", "billing");
        settings.put("share.acknowledgement.mode", "explicit");
        int count = Integer.parseInt(arguments[1]);
        int settled = 0;
        Set<String> renewed = new HashSet<>();
        var text = new StringDeserializer();
        try (var consumer = new KafkaShareConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of("orders"));
            long end = System.currentTimeMillis() + 20_000;
            while (settled < count && System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    AcknowledgeType answer = answer(record, renewed);
                    consumer.acknowledge(record, answer);
                    if (answer == AcknowledgeType.ACCEPT || answer == AcknowledgeType.REJECT) settled++;
                }
                consumer.commitSync().forEach((place, error) -> error.ifPresent(it -> {
                    throw new IllegalStateException(place + ": " + it);
                }));
            }
        }
        System.out.println(settled);
    }

    static AcknowledgeType answer(ConsumerRecord<String, String> record, Set<String> renewed) {
        long offset = record.offset();
        if (offset % 7 == 0 && record.deliveryCount().get() == 1) return AcknowledgeType.RELEASE;
        if (offset % 11 == 0 && renewed.add(record.partition() + ":" + offset)) return AcknowledgeType.RENEW;
        return offset % 13 == 1 ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
    }
}
