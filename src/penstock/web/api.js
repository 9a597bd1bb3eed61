// Client for the HTTP API.  An error response is thrown as a Problem, with its message and what to do.

let guard = null; // The session's CSRF token, sent with every request that changes something.

// The API's advice is written for programs; these are its counterparts for people.
const TODO = {
  TOPIC_NOT_FOUND: "It may have been deleted. You can create topics on the Topics page.",
  GROUP_NOT_FOUND: "It may have been deleted. A group is created when its first consumer connects.",
  VALUE_INVALID: "",
  QUERY_INVALID: "",
};

const FOR_PROGRAMS = /; (create it first|the first consumer of a group).*$/;

export class Problem extends Error {
  constructor(data) {
    super(data.code in TODO ? data.detail.replace(FOR_PROGRAMS, ".") : data.detail);
    this.code = data.code;
    this.todo = TODO[data.code] ?? data.do;
    this.status = data.status;
  }
}

export async function ask(method, path, body) {
  const answer = await send(method, path, body);
  return answer.status === 204 ? null : answer.json();
}

// A query, whose result comes as the given media type; a signal cancels it.
export const run = (query, limit, timeout, accept, signal) =>
  send("POST", "/v1/sql", { query, limit, timeout }, { accept, signal });

// The response, unless it is an error.
async function send(method, path, body, { accept, signal } = {}) {
  const headers = accept ? { accept } : {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (method !== "GET") headers["x-penstock-guard"] = guard ?? "page";
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Problem({
      code: "UNREACHABLE",
      detail: "The server is not responding.",
      do: "",
      status: 0,
    });
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  throw new Problem(
    text
      ? JSON.parse(text)
      : { code: "UNKNOWN", detail: `HTTP ${answer.status}`, do: "", status: answer.status },
  );
}

export const get = (path) => ask("GET", path);
export const post = (path, body = {}) => ask("POST", path, body);
export const remove = (path) => ask("DELETE", path);
export const patch = (path, body) => ask("PATCH", path, body);

// A path from its parts, and a query string without empty values.
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

function remember(data) {
  guard = data.guard;
  return data;
}
