// The overview of the broker, and the numbers of the last hour: what the server remembered when a page was opened,
// and from then on what the page has seen.

import { get, query } from "./api.js";
import { rates } from "./chart.js";

const KEPT_MS = 3_600_000;
const PIPELINES_MS = 30_000; // How often pipelines are asked for, which only tell of themselves every few seconds.
const NAMES = [
  "published",
  "delivered",
  "acked",
  "failed",
  "dead_lettered",
  "waiting",
  "oldest_seconds",
  "latency_half",
  "latency_most",
];

export class Glance {
  constructor() {
    this.told = null;
    this.every = 2000;
    this.history = null;
    this.pipelines = [];
    this.pipelinesAsked = 0;
  }

  async refresh() {
    if (this.history === null) this.history = new History(await get("/v1/history"));
    if (Date.now() - this.pipelinesAsked > PIPELINES_MS) {
      this.pipelinesAsked = Date.now();
      this.pipelines = await get("/v1/pipelines").then(
        (told) => told.pipelines,
        () => [],
      ); // Not everybody may see them.
    }
    this.told = await get("/v1/overview");
    this.every = this.told.again_ms;
    const groups = this.told.groups.map((line) => line.state);
    const sum = (rows, name) => rows.reduce((total, row) => total + row[name], 0);
    const measured = {
      published: sum(this.told.topics, "rate"),
      acked: sum(
        groups.map((group) => group.rates),
        "acked",
      ),
      failed: sum(
        groups.map((group) => group.rates),
        "failed",
      ),
    };
    const row = {
      published: sum(this.told.topics, "published"),
      delivered: sum(groups, "delivered"),
      acked: sum(groups, "acked"),
      failed: sum(groups, "failed"),
      dead_lettered: sum(groups, "dead_lettered"),
      waiting: sum(groups, "lag"),
      oldest_seconds: groups.reduce((most, group) => Math.max(most, group.lag_seconds), 0),
      latency_half: this.told.latency_half,
      latency_most: this.told.latency_most,
    };
    this.history.add(this.told.now_ms, row, measured);
  }
}

export class History {
  constructor(told) {
    this.times = told.times_ms;
    for (const name of NAMES) this[name] = told[name];
    this.measured = this.times.map(() => ({}));
  }

  static async of(topic, group) {
    return new History(await get("/v1/history" + query({ topic, group })));
  }

  // measured: rates by the server's own measure, by name.
  add(time, row, measured = {}) {
    if (this.times.length && time <= this.times[this.times.length - 1]) return;
    this.times.push(time);
    this.measured.push(measured);
    for (const name of NAMES) this[name].push(row[name] ?? 0);
    while (this.times[0] < time - KEPT_MS) {
      this.times.shift();
      this.measured.shift();
      for (const name of NAMES) this[name].shift();
    }
  }

  // By the server's own measure where it is known, so that a chart ends at the number that stands beside it.
  rate(name) {
    const counted = rates(this.times, this[name]);
    return counted.map((value, at) => this.measured[at][name] ?? value);
  }

  lastRate(name) {
    return this.rate(name).at(-1) ?? 0;
  }
}
