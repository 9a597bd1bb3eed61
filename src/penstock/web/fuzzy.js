// Finding names by a few of their letters: "pay" finds payments, "ordeu" finds orders-eu.

const PREFIX = 400;
const WORD = 300;
const INSIDE = 200;
const SPREAD = 100;

// How well the letters fit, and at which places they are; null if they do not.
export function match(wanted, name) {
  const letters = wanted.toLowerCase();
  const text = name.toLowerCase();
  if (!letters) return { score: 0, places: [] };
  const at = text.indexOf(letters);
  if (at >= 0) {
    const begin = at === 0 ? PREFIX : /[^a-z0-9]/.test(text[at - 1]) ? WORD : INSIDE;
    return { score: begin - text.length / 100, places: [...letters].map((_, index) => at + index) };
  }
  return spread(letters, text);
}

// The letters in their order, with others between them: the fewer, the better.
function spread(letters, text) {
  const places = [];
  let score = SPREAD - text.length / 100;
  let from = 0;
  for (const letter of letters) {
    const at = text.indexOf(letter, from);
    if (at < 0) return null;
    const gap = places.length ? at - from : 0;
    score -= Math.min(gap, 10);
    places.push(at);
    from = at + 1;
  }
  return { score, places };
}

// The best of a list; each has a `name`.
export function best(wanted, list, limit) {
  return list
    .map((each) => ({ each, found: match(wanted, each.name) }))
    .filter(({ found }) => found)
    .sort((one, other) => other.found.score - one.found.score || (one.each.name < other.each.name ? -1 : 1))
    .slice(0, limit)
    .map(({ each, found }) => ({ ...each, places: found.places }));
}
