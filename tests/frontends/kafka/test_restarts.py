"""What a Kafka client wrote, and what it knew, after the server has ended and begun again."""

from pathlib import Path

from confluent_kafka import KafkaError, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.frontends.kafka.clients import producer, publish, reader, receive, values
from tests.frontends.kafka.conftest import Server, serving


def topic_id(server: Server) -> str:
    admin = AdminClient({"bootstrap.servers": server.address})
    [told] = admin.describe_topics(TopicCollection(["orders"])).values()
    return str(told.result(10).topic_id)


def test_messages_times_and_the_topics_id_are_there_after_a_restart(tmp_path: Path) -> None:
    ids = []
    for server in serving(str(tmp_path)):
        made = producer(server)
        for second in (20, 10):
            made.produce("orders", b"%d" % second, partition=0, timestamp=1_700_000_000_000 + second)
        assert made.flush(10) == 0
        server.run(server.broker.alter_topic("orders", retention=None))
        ids.append(topic_id(server))

    for server in serving(str(tmp_path)):
        ids.append(topic_id(server))
        consumer = reader(server)
        got = [(it.value(), it.timestamp()[1]) for it in receive(consumer, 2)]
        consumer.close()

    assert ids[0] == ids[1]
    assert got == [(b"20", 1_700_000_000_020), (b"10", 1_700_000_000_010)]


def test_what_was_deleted_by_hand_stays_deleted(tmp_path: Path) -> None:
    for server in serving(str(tmp_path)):
        admin = AdminClient({"bootstrap.servers": server.address})
        [made] = admin.create_topics([NewTopic("orders", 1, 1)]).values()
        made.result(10)
        publish(server, [b"%d" % number for number in range(10)])
        [deleted] = admin.delete_records([TopicPartition("orders", 0, 7)]).values()
        deleted.result(10)

    for server in serving(str(tmp_path)):
        consumer = reader(server, start=7)
        assert values(receive(consumer, 3)) == [b"7", b"8", b"9"]
        assert consumer.get_watermark_offsets(TopicPartition("orders", 0)) == (7, 10)
        consumer.close()
        late = reader(server, settings={"auto.offset.reset": "error"})
        got = late.poll(10)
        late.close()
        error = got and got.error()
        assert error
        assert error.code() == KafkaError._AUTO_OFFSET_RESET
