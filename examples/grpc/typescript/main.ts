// Publishes three messages, then polls and acks them.
//
//   npm install && npm run build
//   npm start 127.0.0.1:9000

import { credentials, loadPackageDefinition, type Client, type ServiceError } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

interface Receipt {
  id: string;
}
interface LeaseRange {
  partition: number;
  lease: string; // 64-bit numbers are text.
  start: string;
  end: string;
  consumer: string;
}
interface Leased {
  range: LeaseRange;
  attempt: number;
  messages: { value: Buffer; headers: Record<string, string> }[];
}
type Call<Request, Response> = (
  request: Request,
  options: { deadline: number },
  done: (error: ServiceError | null, response: Response) => void,
) => void;

const PROTO = process.env.PENSTOCK_PROTO ?? "../../../src/penstock/grpc/penstock.proto";
const definition = loadSync(PROTO, { keepCase: true, longs: String, defaults: true });
const api = (loadPackageDefinition(definition) as any).penstock.v1;

function caller<Request, Response>(client: Client, method: string): (request: Request) => Promise<Response> {
  const call = (client as any)[method].bind(client) as Call<Request, Response>;
  return (request) =>
    new Promise((resolve, reject) => {
      call(request, { deadline: Date.now() + 60_000 }, (error, response) => (error ? reject(error) : resolve(response)));
    });
}

async function main(address: string): Promise<void> {
  const publisher: Client = new api.Publisher(address, credentials.createInsecure());
  const consumer: Client = new api.Consumer(address, credentials.createInsecure());
  const publish = caller<object, Receipt>(publisher, "Publish");
  const poll = caller<object, { leases: Leased[] }>(consumer, "Poll");
  const ack = caller<object, { errors: object[] }>(consumer, "Ack");

  const group = { topic: "ts-orders", group: "ts-workers" };
  for (const value of ["one", "two", "three"]) {
    const message = { value: Buffer.from(value), headers: { from: "typescript" } };
    const receipt = await publish({ topic: group.topic, message });
    console.log("published", receipt.id);
  }
  for (let count = 0; count < 3; ) {
    const { leases } = await poll({ ...group, max_messages: 10, wait_ms: 10_000 });
    for (const { attempt, messages } of leases) {
      for (const { value, headers } of messages) {
        console.log(`received ${value.toString()} from ${headers.from}, attempt ${attempt}`);
        count += 1;
      }
    }
    const { errors } = await ack({ ...group, ack: { ranges: leases.map((leased) => leased.range) } });
    if (errors.length) throw new Error(JSON.stringify(errors));
  }
  console.log("all acked");
  publisher.close();
  consumer.close();
}

main(process.argv[2] ?? "127.0.0.1:9000").catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
