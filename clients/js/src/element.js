// `<stampede-buy activity="demo" sku="camera">`: one item of a sale in any page, from the countdown to the payment (G13).

import { Run } from "./element/run.js";
import { createView } from "./element/view.js";

/**
 * @typedef {import("./index.js").Order} Order
 * @typedef {CustomEvent<{ order: Order, ticket?: import("./index.js").Ticket }>} AcceptedEvent Without a ticket where the buyer waits
 *   already, by another tab or device.
 * @typedef {CustomEvent<{ error: unknown, code: import("./index.js").Code | undefined }>} RefusedEvent
 * @typedef {CustomEvent<{ order: Order }>} PaidEvent
 * @typedef {string | (() => string | null) | null} Token
 */

// Frameworks also import it where there is no DOM.
const Base = /** @type {typeof HTMLElement} */ (globalThis.HTMLElement ?? class {});

export class StampedeBuy extends Base {
  /** A change of one of them begins another sale. */
  static observedAttributes = ["activity", "sku", "quantity", "code", "base-url", "session-url"];

  /** The shop's token of the buyer, or a function that has it: null without a signed-in buyer. @type {Token} */
  token = /** @type {Token | undefined} */ (earlier(this, "token")) ?? null;
  /** Solves a human check. Without it, the browser does a proof of work. */
  solveCheck = /** @type {import("./ticket.js").SolveCheck | undefined} */ (earlier(this, "solveCheck"));

  /** The sale that is shown; null while the element is in no page. @type {Run | null} */
  #run = null;
  #show = createView(this.attachShadow({ mode: "open" }), (event) => this.#run?.click(event));

  connectedCallback() {
    this.#run ??= new Run(this, this.#show);
  }

  disconnectedCallback() {
    this.#run?.stop();
    this.#run = null;
  }

  /** @param {string} _ @param {string | null} before @param {string | null} after */
  attributeChangedCallback(_, before, after) {
    if (!this.#run || before === after) return;
    this.disconnectedCallback();
    // Other attributes may change with it.
    queueMicrotask(() => this.isConnected && this.connectedCallback());
  }
}

/** What a page set before this module was loaded. @param {object} element @param {string} property @returns {unknown} */
function earlier(element, property) {
  return /** @type {Record<string, unknown>} */ (element)[property];
}

if (globalThis.customElements && !customElements.get("stampede-buy")) customElements.define("stampede-buy", StampedeBuy);
