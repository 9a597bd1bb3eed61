// The overview of the broker and the metrics of the last hour: the server's history when the page was opened, and
// the page's own samples since then.

import { get, query } from "./api.js";
import { rates } from "./chart.js";

const KEPT_MS = 3_600_000;
const PIPELINES_MS = 30_000; // How often to load pipelines, which report only every few seconds.
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
    this.data = null;
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
        (data) => data.pipelines,
        () => [],
      ); // Not every user may see them.
    }
    this.data = await get("/v1/overview");
    this.every = this.data.again_ms;
    const groups = this.data.groups.map((line) => line.state);
    const sum = (rows, name) => rows.reduce((total, row) => total + row[name], 0);
    const measured = {
      published: sum(this.data.topics, "rate"),
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
      published: sum(this.data.topics, "published"),
      delivered: sum(groups, "delivered"),
      acked: sum(groups, "acked"),
      failed: sum(groups, "failed"),
      dead_lettered: sum(groups, "dead_lettered"),
      waiting: sum(groups, "lag"),
      oldest_seconds: groups.reduce((most, group) => Math.max(most, group.lag_seconds), 0),
      latency_half: this.data.latency_half,
      latency_most: this.data.latency_most,
    };
    this.history.add(this.data.now_ms, row, measured);
  }
}

export class History {
  constructor(data) {
    this.times = data.times_ms;
    for (const name of NAMES) this[name] = data[name];
    this.measured = this.times.map(() => ({}));
  }

  static async of(topic, group) {
    return new History(await get("/v1/history" + query({ topic, group })));
  }

  // measured: rates measured by the server, by name.
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

  // Prefers the rate measured by the server, so that the chart agrees with the number next to it.
  rate(name) {
    const counted = rates(this.times, this[name]);
    return counted.map((value, at) => this.measured[at][name] ?? value);
  }

  lastRate(name) {
    return this.rate(name).at(-1) ?? 0;
  }
}
