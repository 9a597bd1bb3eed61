// kafkajs makes a topic, writes to it, commits and aborts a transaction, and reads in a group; see test_kafkajs.py.
//
//     node kafkajs.js <folder of its modules> <address>
const [modules, address] = process.argv.slice(2);
const { Kafka, CompressionTypes, logLevel } = require(`${modules}/kafkajs`);

async function main() {
  const kafka = new Kafka({ clientId: "js", brokers: [address], logLevel: logLevel.ERROR });
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic: "orders", numPartitions: 2 }] });

  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, transactionalId: "js" });
  await producer.connect();
  const messages = [0, 1, 2, 3].map((number) => ({ key: `k${number}`, value: `v${number}`, headers: { a: "b" } }));
  await producer.send({ topic: "orders", compression: CompressionTypes.GZIP, messages });
  for (const word of ["committed", "aborted"]) {
    const transaction = await producer.transaction();
    await transaction.send({ topic: "orders", messages: [{ key: word, value: word }] });
    await (word === "committed" ? transaction.commit() : transaction.abort());
  }

  const got = [];
  const consumer = kafka.consumer({ groupId: "billing" });
  await consumer.connect();
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  await new Promise((resolve) =>
    consumer.run({
      eachMessage: async ({ message }) => {
        got.push(`${message.value}`);
        if (got.length === 5) resolve();
      },
    }),
  );
  await consumer.disconnect(); // Commits.

  const configs = await admin.describeConfigs({ resources: [{ type: 2, name: "orders", configNames: ["retention.ms"] }] });
  const [described] = (await admin.describeGroups(["billing"])).groups;
  const offsets = await admin.fetchOffsets({ groupId: "billing", topics: ["orders"] });
  const acls = await admin
    .describeAcls({ resourceType: 1, resourcePatternType: 1, operation: 1, permissionType: 1 })
    .catch((error) => error.type);
  const { brokers } = await admin.describeCluster();
  await producer.disconnect();
  await admin.disconnect();
  console.log(
    JSON.stringify({
      got: got.sort(),
      settings: configs.resources[0].configEntries.length,
      state: described.state,
      placed: offsets[0].partitions.length,
      acls,
      brokers: brokers.length,
    }),
  );
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
