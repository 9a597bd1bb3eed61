// Where a line over time is interrupted: missing values are gaps, neither zeros nor a straight line across.

const LATE = 3; // A sample counts as missing if the next one comes this many times later than usual.

// The positions at which a new part of the line begins, for samples that are taken about equally often.
export function interruptions(times) {
  const steps = differences(times);
  const usual = [...steps].sort((one, other) => one - other)[Math.floor(steps.length / 2)];
  return positions(steps, (step) => step > LATE * usual);
}

// The same for buckets such as date_trunc('minute', ...), of which some are missing.  Times without a common step, such as
// those of single messages, have no gaps.  `penstock sql --plot` has the same rule (spark/queries/plot.py).
export function missingBuckets(times) {
  const steps = differences(times);
  const step = Math.min(...steps);
  const common = steps.filter((each) => each === step).length * 2 >= steps.length;
  if (!(step > 0) || !common || steps.some((each) => each % step)) return new Set();
  return positions(steps, (each) => each > step);
}

const differences = (times) => times.slice(1).map((time, at) => time - times[at]);

function positions(steps, isGap) {
  const found = new Set();
  steps.forEach((step, at) => isGap(step) && found.add(at + 1));
  return found;
}

// The parts of a line: lists of positions, from `first` on, without those that have no value.
export function parts(values, first, breaks) {
  const found = [];
  let open = false;
  for (let at = first; at < values.length; at++) {
    if (!isThere(values[at])) {
      open = false;
      continue;
    }
    if (!open || breaks.has(at)) found.push([]);
    found[found.length - 1].push(at);
    open = true;
  }
  return found;
}

export const isThere = (value) => value !== null && value !== undefined && !Number.isNaN(value);
