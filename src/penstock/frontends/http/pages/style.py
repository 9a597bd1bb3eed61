"""Styles of the page at /docs: light or dark by the system's setting, and responsive."""

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --back: #fbfbfa; --paper: #fff; --ink: #1c2024; --faint: #62676d; --line: #e2e3e1; --link: #0b62b8;
  --get: #0b62b8; --post: #1b7a3d; --put: #925500; --patch: #7440b5; --delete: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14171a; --paper: #1b1f23; --ink: #e4e6e8; --faint: #9aa1a8; --line: #2f353b; --link: #7db8f2;
    --get: #7db8f2; --post: #6cc98c; --put: #e0a95a; --patch: #bd9bef; --delete: #f2938c;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body {
  margin: 0 auto; max-width: 80rem; display: grid; grid-template-columns: 21rem minmax(0, 1fr);
  background: var(--back); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
}
nav {
  position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1.5rem 1rem; font-size: 0.85rem;
  border-right: 1px solid var(--line);
}
main { padding: 1.5rem 2rem 6rem; }
h1 { font-size: 1.3rem; margin: 0 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.75rem; }
h2::first-letter, nav h3::first-letter { text-transform: uppercase; }
main > h2:first-child { margin-top: 0; }
h3 { font-size: 1rem; margin: 0 0 0.25rem; }
h4 { font-size: 0.8rem; margin: 1rem 0 0.25rem; color: var(--faint); font-weight: 600; }
nav h3 { font-size: 0.85rem; margin: 1rem 0 0.25rem; color: var(--faint); }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li a {
  display: grid; grid-template-columns: 3.4rem 1fr; align-items: baseline; padding: 0.1rem 0;
  color: var(--ink); text-decoration: none; overflow-wrap: anywhere;
}
nav li a:hover { text-decoration: underline; }
a { color: var(--link); }
a:focus-visible, summary:focus-visible {
  outline: 2px solid var(--link); outline-offset: 2px; border-radius: 3px;
}
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--paper); padding: 0.5rem; z-index: 1; }
small, i { color: var(--faint); font-style: normal; font-weight: 400; font-size: 0.85em; }
code, pre, b { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 0.9em; }
b { display: inline-block; min-width: 3.6rem; font-weight: 600; font-size: 0.75rem; }
.get { color: var(--get); } .post { color: var(--post); } .put { color: var(--put); }
.patch { color: var(--patch); } .delete { color: var(--delete); }
details, section {
  background: var(--paper); border: 1px solid var(--line); border-radius: 6px; margin: 0 0 0.5rem;
}
section { padding: 0.75rem 1rem; }
section p { margin: 0 0 0.5rem; }
summary { padding: 0.6rem 1rem; cursor: pointer; overflow-wrap: anywhere; }
summary span { display: block; padding-left: 1.1rem; color: var(--faint); font-size: 0.9rem; }
details > div { padding: 0 1rem 1rem 2.1rem; scroll-margin-top: 5rem; }
details p { margin: 0.25rem 0; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
td, th {
  padding: 0.3rem 0.75rem 0.3rem 0; text-align: left; vertical-align: top; font-weight: 400;
  border-top: 1px solid var(--line); overflow-wrap: anywhere;
}
th { width: 11rem; }
td code + code { margin-left: 0.4rem; }
details > div th { width: 8rem; }
tr:first-child > * { border-top: 0; }
pre {
  margin: 0.25rem 0; padding: 0.6rem 0.8rem; white-space: pre-wrap; background: var(--back);
  border: 1px solid var(--line); border-radius: 4px;
}
@media (max-width: 56rem) {
  body { display: block; }
  nav { position: static; height: auto; border-right: 0; border-bottom: 1px solid var(--line); }
  nav ul, nav h3 { display: none; }
  h1 { margin: 0; }
  main { padding: 1rem 1rem 4rem; }
  details > div { padding-left: 1rem; }
  th, details > div th { width: 6.5rem; }
}
"""
