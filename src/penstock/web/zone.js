// The time zone of all times on the pages: the browser's or UTC, chosen in the sidebar.

const KEPT = "penstock-zone";
const LOCAL = new Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";

let utc = remembered() === "utc";

export const isUtc = () => utc;
export const zoneName = () => (utc || LOCAL === "UTC" ? "UTC" : `${LOCAL}, ${offset(Date.now())}`);

export function choose(wanted) {
  utc = wanted === "utc";
  try {
    localStorage.setItem(KEPT, utc ? "utc" : "local");
  } catch {
    // Without storage, the choice lasts as long as the page.
  }
}

function remembered() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}

// "2026-11-17 16:29:37.079" in the chosen time zone, or in UTC if asked for.
export function written(milliseconds, inUtc = utc) {
  const minutes = inUtc ? 0 : new Date(milliseconds).getTimezoneOffset();
  return new Date(milliseconds - minutes * 60_000).toISOString().replace("T", " ").replace("Z", "");
}

// The inverse, for the value of a date and time input.
export const parsed = (text) => new Date(utc ? `${text}Z` : text).toISOString();

// Both zones, for tooltips.
export function both(milliseconds) {
  return `${written(milliseconds, false)} ${offset(milliseconds)}\n${written(milliseconds, true)} UTC`;
}

function offset(milliseconds) {
  const minutes = -new Date(milliseconds).getTimezoneOffset();
  const size = Math.abs(minutes);
  const rest = size % 60 ? `:${String(size % 60).padStart(2, "0")}` : "";
  return `UTC${minutes < 0 ? "−" : "+"}${Math.floor(size / 60)}${rest}`;
}
