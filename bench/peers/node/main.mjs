// A producer and a consumer of one partition, by kafkajs with its defaults.
//
//     node main.mjs produce ADDRESS TOPIC SIZE COUNT ACKS CODEC
//     node main.mjs consume ADDRESS TOPIC COUNT
//
// Each prints how many records it moved, the seconds from the first record to the last
// acknowledgement, or to the last record read, and the processor seconds of that time.
import { once } from "node:events";
import kafkajs from "kafkajs";

const { CompressionTypes, Kafka, logLevel } = kafkajs;
const PATIENCE_MS = 120_000;
// A request has the records of one send; kafkajs gathers none. Half a megabyte at 1 KB.
const RECORDS_OF_A_SEND = 500;
const SENDS_AT_ONCE = 5; // as many as Java's producer has in flight
const ACKS = { 1: 1, all: -1 };
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP };

function known(word, what, values) {
  if (!(word in values)) fail(`wanted ${what} ${Object.keys(values).join(" or ")}, got ${word}`);
  return values[word];
}

function fail(why) {
  console.error(why);
  process.exit(1);
}

function connection(address) {
  const logCreator =
    () =>
    ({ log }) =>
      console.error(log.message);
  return new Kafka({ brokers: [address], logLevel: logLevel.ERROR, logCreator });
}

async function produce(address, topic, size, count, acksWord, codecWord) {
  const acks = known(acksWord, "acks", ACKS);
  const compression = known(codecWord, "codec", CODECS);
  const value = Buffer.from("abcdefghijklmnopqrstuvwxyz".repeat(size / 26 + 1)).subarray(0, size);
  const producer = connection(address).producer();
  await producer.connect();
  let left = Number(count);
  const sender = async () => {
    while (left > 0) {
      const length = Math.min(RECORDS_OF_A_SEND, left);
      left -= length;
      const messages = Array.from({ length }, () => ({ value, partition: 0 }));
      await producer.send({ topic, acks, compression, messages });
    }
  };
  const begin = clocks();
  await Promise.all(Array.from({ length: SENDS_AT_ONCE }, sender));
  tell(begin, Number(count));
  await producer.disconnect();
}

// kafkajs reads in a group alone; the clocks begin when the group has its assignment.
async function consume(address, topic, count) {
  const consumer = connection(address).consumer({ groupId: `bench-${topic}` });
  const finished = new EventTarget();
  let begin;
  let seen = 0;
  consumer.on(consumer.events.GROUP_JOIN, () => (begin = clocks()));
  consumer.on(consumer.events.CRASH, ({ payload }) => fail(payload.error.message));
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const eachBatch = async ({ batch }) => {
    seen += batch.messages.length;
    if (seen >= count) finished.dispatchEvent(new Event("end"));
  };
  const end = once(finished, "end");
  await consumer.run({ eachBatch });
  await end;
  tell(begin, seen);
  await consumer.disconnect();
}

function clocks() {
  return { at: performance.now(), used: process.cpuUsage() };
}

function tell(begin, records) {
  const { user, system } = process.cpuUsage(begin.used);
  const seconds = (performance.now() - begin.at) / 1000;
  console.log(JSON.stringify({ records, seconds, cpu: (user + system) / 1e6 }));
}

setTimeout(() => fail(`not ended after ${PATIENCE_MS / 1000} s`), PATIENCE_MS).unref();
const [way, ...words] = process.argv.slice(2);
await known(way, "way", { produce, consume })(...words);
