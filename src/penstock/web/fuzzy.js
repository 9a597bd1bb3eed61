// Fuzzy search for names, even if misspelled: "pay" finds payments, "oeu" orders-eu, "ordres" orders.

const PREFIX = 400;
const WORD = 300;
const INSIDE = 200;
const SPREAD = 100;
const MISSPELLED = 0;
const LETTERS_PER_TYPO = 4; // One typo is allowed per this many letters.

// How well the letters match, and at which positions; null if they do not.
export function match(wanted, name) {
  const letters = wanted.toLowerCase();
  const text = name.toLowerCase();
  if (!letters) return { score: 0, positions: [] };
  const at = text.indexOf(letters);
  if (at >= 0) {
    const begin = at === 0 ? PREFIX : /[^a-z0-9]/.test(text[at - 1]) ? WORD : INSIDE;
    return { score: begin - text.length / 100, positions: [...letters].map((_, index) => at + index) };
  }
  return spread(letters, text) ?? misspelled(letters, text);
}

// The letters in order, with gaps: the smaller the gaps, the better.
function spread(letters, text) {
  const positions = [];
  let score = SPREAD - text.length / 100;
  let from = 0;
  for (const letter of letters) {
    const at = text.indexOf(letter, from);
    if (at < 0) return null;
    const gap = positions.length ? at - from : 0;
    score -= Math.min(gap, 10);
    positions.push(at);
    from = at + 1;
  }
  return { score, positions };
}

// The beginning of the name with letters added, missing, replaced or swapped.
function misspelled(letters, text) {
  const most = Math.floor(letters.length / LETTERS_PER_TYPO);
  if (!most) return null;
  const begin = text.slice(0, letters.length + most);
  const typos = Math.min(...distances(letters, begin).slice(Math.max(letters.length - most, 1)));
  return typos <= most ? { score: MISSPELLED - typos - text.length / 100, positions: [] } : null;
}

// The edit distance of `letters` to each prefix of `text` (optimal string alignment).
function distances(letters, text) {
  let before = null;
  let row = Array.from({ length: text.length + 1 }, (_, at) => at);
  for (let i = 1; i <= letters.length; i++) {
    const next = [i];
    for (let j = 1; j <= text.length; j++) {
      const other = letters[i - 1] === text[j - 1] ? 0 : 1;
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + other);
      const swapped = i > 1 && j > 1 && letters[i - 1] === text[j - 2] && letters[i - 2] === text[j - 1];
      if (swapped) next[j] = Math.min(next[j], before[j - 2] + 1);
    }
    [before, row] = [row, next];
  }
  return row;
}

// The best of a list; each has a `name`.
export function best(wanted, list, limit) {
  return list
    .map((each) => ({ each, found: match(wanted, each.name) }))
    .filter(({ found }) => found)
    .sort((one, other) => other.found.score - one.found.score || (one.each.name < other.each.name ? -1 : 1))
    .slice(0, limit)
    .map(({ each, found }) => ({ ...each, positions: found.positions }));
}
