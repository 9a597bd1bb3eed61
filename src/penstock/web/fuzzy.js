// Finding names by a few of their letters, also misspelled: "pay" finds payments, "oeu" orders-eu, "ordres" orders.

const PREFIX = 400;
const WORD = 300;
const INSIDE = 200;
const SPREAD = 100;
const MISSPELLED = 0;
const LETTERS_PER_SLIP = 4; // So many letters may have one slip, twice as many two.

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
  return spread(letters, text) ?? misspelled(letters, text);
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

// The beginning of the name, with a letter too many, too few, or another one, or two in the wrong order.
function misspelled(letters, text) {
  const most = Math.floor(letters.length / LETTERS_PER_SLIP);
  if (!most) return null;
  const begin = text.slice(0, letters.length + most);
  const slips = Math.min(...distances(letters, begin).slice(Math.max(letters.length - most, 1)));
  return slips <= most ? { score: MISSPELLED - slips - text.length / 100, places: [] } : null;
}

// How many slips make each beginning of `text` of `letters` (optimal string alignment).
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
    .map(({ each, found }) => ({ ...each, places: found.places }));
}
