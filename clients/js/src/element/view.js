// The box of `<stampede-buy>`: its markup and styles, in a shadow tree.

import { spoken } from "./content.js";

// The text and its size are the page's. What is quiet is a shade of the page's colour, whatever its background is.
const STYLES = `
:host {
  --fill: var(--stampede-color, #c7361f); --on-fill: var(--stampede-on-color, #fff);
  display: block; box-sizing: border-box; max-width: 24rem; padding: 1rem; border: 1px solid rgb(127 127 127 / 35%); border-radius: 16px;
  line-height: 1.25; font-variant-numeric: tabular-nums; text-align: start; overflow-wrap: break-word;
}
:host([hidden]), [hidden] { display: none !important; }
* { box-sizing: border-box; margin: 0; }
.box { display: grid; gap: .75rem; }
.head { display: flex; align-items: end; justify-content: space-between; gap: 1rem; }
.head > div { display: grid; gap: .125rem; min-width: 0; }
.label { min-height: 1.25em; font-size: .875em; opacity: .75; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.value { min-height: 1.25em; font-size: 1.25em; font-weight: 700; letter-spacing: -.01em; white-space: nowrap; }
.timer { flex: none; text-align: end; }
.action {
  display: flex; align-items: center; justify-content: center; gap: .75rem; width: 100%; min-height: 3rem; padding: .5rem 1rem;
  border: 1px solid var(--fill); border-radius: 12px; background: var(--fill); color: var(--on-fill); font: inherit; font-weight: 600;
  text-align: center; text-decoration: none; cursor: pointer; -webkit-tap-highlight-color: transparent;
}
.action[data-tone="quiet"] { border-color: currentcolor; background: none; color: inherit; }
.action[data-tone="wait"], .action[data-tone="busy"] { border-color: transparent; background: rgb(127 127 127 / 18%); color: inherit; cursor: default; }
.action[data-tone="busy"] { cursor: progress; }
.action[data-tone="good"] { border-color: #1c6b3c; background: #1c6b3c; color: #fff; cursor: default; }
.action[data-tone="busy"]::before, .action[data-tone="good"]::before {
  content: ""; flex: none; width: 1rem; height: 1rem; border: 2px solid; border-right-color: transparent; border-radius: 50%; animation: turn 1s linear infinite;
}
@keyframes turn { to { transform: rotate(1turn); } }
:focus-visible { outline: 3px solid; outline-offset: 2px; }
.action:focus-visible { outline-color: var(--fill); }
@media (hover: hover) { .action:not([data-tone]):hover { filter: brightness(.9); } }
@media (prefers-reduced-motion: reduce) { .action::before { animation: none !important; } }
.status { display: grid; align-content: center; min-height: 2.5em; font-size: .875em; text-align: center; text-wrap: balance; opacity: .85; }
.status:lang(zh) { word-break: keep-all; }
.status[data-state="refused"], .status[data-state="unknown"] { opacity: 1; }
`;

const MARKUP = `
<div class="box" part="box">
  <div class="head">
    <div><span class="label" part="item"></span><span class="value" part="price"></span></div>
    <div class="timer" part="countdown"><span class="label" id="label"></span>
    <span class="value" id="clock" role="timer" aria-live="off" aria-labelledby="label clock"></span></div>
  </div>
  <slot name="pay-link" hidden></slot>
  <button type="button" class="action" part="button"></button>
  <a class="action" part="link" hidden></a>
  <p class="status" part="status" role="status"><slot></slot></p>
</div>`;

/**
 * Fills a shadow tree. Returns the function that shows a content.
 * @param {ShadowRoot} root
 * @param {(event: Event) => void} onClick A click on the button or the link.
 */
export function createView(root, onClick) {
  root.innerHTML = MARKUP;
  addStyles(root);
  /** @template {HTMLElement} [E=HTMLElement] @param {string} selector */
  const find = (selector) => /** @type {E} */ (root.querySelector(selector));
  const [box, item, price, label, clock] = [".box", "[part=item]", "[part=price]", "#label", "#clock"].map((selector) => find(selector));
  const [button, status, timer, payLink] = [find("button"), find(".status"), find(".timer"), /** @type {HTMLSlotElement} */ (find("[name=pay-link]"))];
  const link = /** @type {HTMLAnchorElement} */ (find("a"));
  const slot = /** @type {HTMLSlotElement} */ (find(".status slot"));
  for (const action of [button, link]) action.addEventListener("click", onClick);

  /** @param {import("./content.js").Content} content @param {string} language */
  return (content, language) => {
    const { state, href, action, tone } = content;
    setAttribute(box, "lang", spoken(language));
    timer.hidden = !content.clock;
    for (const [node, text] of /** @type {[HTMLElement, string][]} */ ([
      [item, content.item], [price, content.price], [label, content.clockLabel], [clock, content.clock],
    ])) setText(node, text);
    const hasOwnLink = state === "pay" && payLink.assignedElements().length > 0;
    const [shown, other] = href ? [link, button] : [button, link];
    const hadFocus = root.activeElement === other;
    payLink.hidden = !hasOwnLink;
    other.hidden = true;
    shown.hidden = hasOwnLink;
    for (const node of [shown, other]) {
      setText(node, content.label);
      setAttribute(node, "data-tone", tone ?? null);
    }
    if (href) setAttribute(link, "href", href);
    // Not `disabled`: the button keeps the focus.
    setAttribute(button, "aria-disabled", action ? null : "true");
    if (hadFocus) shown.focus();
    setAttribute(status, "data-state", state);
    // The page's own text for a state replaces ours.
    setAttribute(slot, "name", state);
    setText(slot, content.note);
  };
}

/** @type {CSSStyleSheet | undefined} */
let sheet;

/** A sheet that a script makes needs no `style-src` of the page's policy. It came with Firefox 101 and Safari 16.4. @param {ShadowRoot} root */
function addStyles(root) {
  if ("adoptedStyleSheets" in root) {
    if (!sheet) (sheet = new CSSStyleSheet()).replaceSync(STYLES);
    root.adoptedStyleSheets = [sheet];
  } else {
    const style = document.createElement("style");
    style.textContent = STYLES;
    /** @type {ShadowRoot} */ (root).append(style);
  }
}

/** @param {HTMLElement} node @param {string} text */
const setText = (node, text) => void (node.textContent !== text && (node.textContent = text));

/** @param {HTMLElement} node @param {string} name @param {string | null} value */
function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}
