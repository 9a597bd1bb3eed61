// A small virtual DOM: only differences are applied to the document, so focus, selections and open details are
// kept.  Text always becomes a text node; there is no way to insert HTML.
//
//   render(place, h("p", { class: "note" }, "Hello ", h("b", null, name)))
//
// Properties are attributes; those that begin with "on" are event handlers; `key` identifies an element among its
// siblings; `value` and `checked` are set only if given; `made` is called once with the new element.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: flat(children, []) };
}

export function render(place, ...children) {
  patchChildren(place, flat(children, []));
}

function flat(list, found) {
  for (const each of list) {
    if (Array.isArray(each)) flat(each, found);
    else if (each === null || each === undefined || typeof each === "boolean") continue;
    else found.push(typeof each === "object" ? each : String(each));
  }
  return found;
}

function patchChildren(parent, wanted) {
  const keyed = new Map();
  const free = [];
  for (const node of parent.childNodes) {
    if (node.viewKey === undefined) free.push(node);
    else keyed.set(node.viewKey, node);
  }
  const nodes = wanted.map((view) => {
    const known = take(view, keyed, free);
    return known ? patched(known, view) : made(view, parent);
  });
  for (const node of [...keyed.values(), ...free]) node.remove();
  let next = parent.firstChild;
  for (const node of nodes) {
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
  }
}

function take(view, keyed, free) {
  const key = view.props?.key;
  if (key !== undefined) {
    const node = keyed.get(key);
    if (!node || !fits(node, view)) return null;
    keyed.delete(key);
    return node;
  }
  return free.length && fits(free[0], view) ? free.shift() : null;
}

function fits(node, view) {
  if (typeof view === "string") return node.nodeType === Node.TEXT_NODE;
  return node.nodeType === Node.ELEMENT_NODE && node.localName === view.tag;
}

function made(view, parent) {
  if (typeof view === "string") return document.createTextNode(view);
  const inSvg = view.tag === "svg" || parent.namespaceURI === SVG;
  const node = inSvg ? document.createElementNS(SVG, view.tag) : document.createElement(view.tag);
  if (view.props.key !== undefined) node.viewKey = view.props.key;
  patched(node, view);
  view.props.made?.(node);
  return node;
}

function patched(node, view) {
  if (typeof view === "string") {
    if (node.data !== view) node.data = view;
    return node;
  }
  const before = node.viewProps ?? {};
  for (const name of Object.keys(before)) if (!(name in view.props)) set(node, name, null);
  for (const [name, value] of Object.entries(view.props)) set(node, name, value, before[name]);
  node.viewProps = view.props;
  if (!view.props.foreign) patchChildren(node, view.children); // Its content is managed elsewhere.
  return node;
}

function set(node, name, value, before) {
  if (name === "key" || name === "made" || name === "foreign") return;
  if (name.startsWith("on")) node[name] = value;
  else if (name === "value" || name === "checked") {
    if (value !== before && node[name] !== value) node[name] = value;
  } else if (value === before) return;
  else if (name === "style")
    for (const [part, text] of Object.entries(value ?? {})) node.style.setProperty(part, text);
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}
