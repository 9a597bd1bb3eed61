// SQL that was run, and SQL that was saved under a name, in the storage of this browser.  Without storage there is none.

const HISTORY = "penstock-sql-history";
const SAVED = "penstock-sql-saved";
const HISTORY_MAX = 50;
const SAVED_MAX = 200;
const LENGTH_MAX = 20_000; // Characters; a longer query is not worth remembering.

export const history = () => read(HISTORY).filter((each) => typeof each === "string");
export const saved = () =>
  read(SAVED).filter((each) => typeof each?.name === "string" && typeof each?.text === "string");

// The latest first, each once.
export function remember(text) {
  if (text.length <= LENGTH_MAX)
    write(HISTORY, [text, ...history().filter((each) => each !== text)].slice(0, HISTORY_MAX));
}

// Whether it could be saved; a query of the same name is replaced.
export function keep(name, text) {
  const others = saved().filter((each) => each.name !== name);
  return (
    others.length < SAVED_MAX &&
    write(
      SAVED,
      [...others, { name, text }].sort((one, other) => one.name.localeCompare(other.name)),
    )
  );
}

export const forget = (name) =>
  write(
    SAVED,
    saved().filter((each) => each.name !== name),
  );

function read(key) {
  try {
    const found = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}

function write(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}
