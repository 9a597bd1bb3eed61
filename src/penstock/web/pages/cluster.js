// The cluster: its nodes, who owns which partitions, how long commits take, and the last takeovers.

import { get } from "../api.js";
import { h } from "../dom.js";
import { count, latency, plural, span, spanMs } from "../format.js";
import { command, empty, heading, section, state, table, tiles, topicLink, when } from "../widgets.js";

const OWNED_TOPICS_MAX = 200; // A longer list is not useful on a page; the command line has all.

export function clusterPage() {
  let cluster = null;

  async function load() {
    cluster = await get("/v1/cluster");
  }

  function view() {
    const up = cluster.nodes.filter((node) => node.report);
    const orphans = cluster.partitions.filter((partition) => partition.node < 0).length;
    const slowest = (of) => Math.max(0, ...up.map((node) => node.report[of]));
    return [
      heading("Cluster", { after: `${cluster.name}, on ${cluster.store}, seen from node ${cluster.node}.` }),
      tiles([
        ["Nodes", `${up.length} of ${cluster.nodes.length}`, " up", up.length < cluster.nodes.length && "warn"],
        ["Partitions", count(cluster.partitions.length)],
        ["Without an owner", count(orphans), "", orphans && "bad"],
        ["Commit, p50", latency(slowest("commit_seconds_p50")), " slowest node"],
        ["Commit, p99", latency(slowest("commit_seconds_p99")), " slowest node"],
      ]),
      section("Nodes", null, nodes(cluster.nodes)),
      section("Owners", { note: "Partitions by node" }, owners(cluster)),
      section("Takeovers", { note: "The latest of each node" }, takeovers(cluster.takeovers)),
    ];
  }

  return { title: "Cluster", every: 3000, refresh: load, view };
}

function nodes(rows) {
  const said = (of) => (node) => (node.report ? of(node.report) : "–");
  return table({
    label: "Nodes",
    rows,
    key: (node) => node.node,
    columns: [
      { name: "Node", head: true, cell: (node) => node.node },
      { name: "State", cell: (node) => state(node.state) },
      { name: "Address", cell: (node) => h("span", { class: "id" }, address(node)) },
      { name: "Partitions", number: true, cell: (node) => count(node.partitions) },
      { name: "Commit p50", number: true, cell: said((report) => latency(report.commit_seconds_p50)) },
      { name: "p99", number: true, cell: said((report) => latency(report.commit_seconds_p99)) },
      { name: "WAL", number: true, cell: said((report) => plural(report.wal_entries, "object")) },
      { name: "Up for", number: true, cell: said((report) => span(report.uptime_seconds)) },
      { name: "Version", number: true, cell: said((report) => report.version) },
    ],
  });
}

const address = ({ host, native, kafka }) => (native || kafka ? `${host}:${native || kafka}` : host);

function owners({ nodes: all, partitions }) {
  const topics = [...new Set(partitions.map((partition) => partition.topic))].sort();
  const numbers = all.filter((node) => node.report || node.partitions).map((node) => node.node);
  const owned = (topic, node) =>
    partitions.filter((each) => each.topic === topic && each.node === node).map((each) => each.partition);
  const none = topics.some((topic) => owned(topic, -1).length);
  return [
    table({
      label: "Owners",
      rows: topics.slice(0, OWNED_TOPICS_MAX),
      key: (topic) => topic,
      empty: empty("There are no topics yet."),
      columns: [
        { name: "Topic", head: true, cell: topicLink },
        ...numbers.map((node) => ({ name: `Node ${node}`, cell: (topic) => ranges(owned(topic, node)) })),
        ...(none ? [{ name: "No owner", cell: (topic) => ranges(owned(topic, -1)) }] : []),
      ],
    }),
    topics.length > OWNED_TOPICS_MAX && [
      h("p", { class: "note" }, `${plural(topics.length - OWNED_TOPICS_MAX, "topic")} more; all of them with:`),
      command("penstock cluster status"),
    ],
  ];
}

// 0-3, 7
function ranges(numbers) {
  const parts = [];
  for (const number of numbers) {
    const last = parts.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(", ") || "–";
}

function takeovers(rows) {
  return table({
    label: "Takeovers",
    rows,
    key: (each) => `${each.at_ms} ${each.node} ${each.previous}`,
    empty: empty("No partitions have changed their owner since these nodes started."),
    columns: [
      { name: "Time", head: true, cell: (each) => when(each.at_ms) },
      { name: "From", cell: (each) => (each.previous ? `node ${each.previous}` : "–") },
      { name: "To", cell: (each) => `node ${each.node}` },
      { name: "Reason", cell: (each) => (each.clean ? "handed over" : "failed") },
      { name: "Partitions", number: true, cell: (each) => count(each.partitions) },
      { name: "Took", number: true, cell: (each) => spanMs(each.duration_ms) },
    ],
  });
}
