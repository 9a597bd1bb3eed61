// The server's API, for these pages.  What it refuses is a Problem, with its sentence and what to do.

let guard = null; // Of the session; shown with every request that changes something.

// What to do is written for programs; somebody in a browser does something else.
const TODO = {
  TOPIC_NOT_FOUND: "It may have been deleted. Topics can be created on the page Topics.",
  GROUP_NOT_FOUND: "It may have been deleted. A group is created by its first consumer.",
  VALUE_INVALID: "",
};

const FOR_PROGRAMS = /; (create it first|the first consumer of a group).*$/;

export class Problem extends Error {
  constructor(told) {
    super(told.code in TODO ? told.detail.replace(FOR_PROGRAMS, ".") : told.detail);
    this.code = told.code;
    this.todo = TODO[told.code] ?? told.do;
    this.status = told.status;
  }
}

export async function ask(method, path, body) {
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (method !== "GET") headers["x-penstock-guard"] = guard ?? "page";
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Problem({ code: "UNREACHABLE", detail: "The server does not answer.", do: "", status: 0 });
  }
  if (answer.status === 204) return null;
  const text = await answer.text();
  const told = text ? JSON.parse(text) : null;
  if (!answer.ok)
    throw new Problem(
      told ?? { code: "UNKNOWN", detail: `HTTP ${answer.status}`, do: "", status: answer.status },
    );
  return told;
}

export const get = (path) => ask("GET", path);
export const post = (path, body = {}) => ask("POST", path, body);
export const remove = (path) => ask("DELETE", path);
export const patch = (path, body) => ask("PATCH", path, body);

// A path from its parts, and a query without what is empty.
export function path(...parts) {
  return "/v1/" + parts.map(encodeURIComponent).join("/");
}

export function query(fields) {
  const given = Object.entries(fields).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  return given.length ? "?" + new URLSearchParams(given) : "";
}

// Who is logged in.

export async function who() {
  try {
    return remember(await get("/ui/session"));
  } catch (problem) {
    if (problem.status !== 401) throw problem;
    return remember({ required: true, kind: "nobody", name: "", guard: null });
  }
}

export const logIn = async (shown) => remember(await post("/ui/session", shown));
export const logOut = () => remove("/ui/session");

function remember(told) {
  guard = told.guard;
  return told;
}
