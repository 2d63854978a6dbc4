// A shop that is not ours: its own page, its sign-in page, and a session endpoint that gives the tokens of its buyers.

import { createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";
import { variable } from "../../support/app.mjs";

/** Serves `/login` and `/session` for the pages at `saleOrigin`, and the shop's own `page`. Tokens live `tokenSeconds`. */
export class ShopServer {
  sessions = new Map();
  /** How often the session endpoint was asked. */
  asked = 0;
  /** What `/login` was asked to return to. */
  returnAddresses = [];
  tokenSeconds = 3_600;
  /** The HTML of `/`. */
  page = "";
  /** Whether the session endpoint answers 503. */
  fails = false;
  /** Milliseconds until the session endpoint answers. */
  delayMs = 0;

  constructor(saleOrigin) {
    this.saleOrigin = saleOrigin;
    this.server = createServer((request, response) => void this.#answer(request, response));
  }

  async start() {
    this.server.listen(Number(variable("PORT_SHOP")), "127.0.0.1");
    await once(this.server, "listening");
    return this;
  }

  async stop() {
    if (!this.server.listening) return;
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, "close");
  }

  async #answer(request, response) {
    const url = new URL(request.url, "http://shop");
    const user = this.sessions.get(/\bsid=(\w+)/.exec(request.headers.cookie ?? "")?.[1]);
    if (url.pathname === "/session") return this.#session(user, response);
    if (url.pathname === "/") return response.writeHead(200, { "content-type": "text/html" }).end(this.page);
    const returnTo = url.searchParams.get("return_to") ?? "";
    this.returnAddresses.push(returnTo);
    // Without this check, the sign-in page would lead to any page that a link names.
    if (![this.saleOrigin, `http://${request.headers.host}`].some((origin) => returnTo.startsWith(`${origin}/`))) return response.writeHead(400).end("Where from?");
    if (request.method === "GET") {
      const form = `<form method="post"><label>Name <input name="user"></label><button>Enter the shop</button></form>`;
      return response.writeHead(200, { "content-type": "text/html" }).end(`<!doctype html><title>Shop</title>${form}`);
    }
    const body = [];
    for await (const chunk of request) body.push(chunk);
    const sid = randomBytes(16).toString("hex");
    this.sessions.set(sid, new URLSearchParams(Buffer.concat(body).toString()).get("user"));
    response.writeHead(303, { "set-cookie": `sid=${sid}; HttpOnly; SameSite=Lax; Path=/`, location: returnTo }).end();
  }

  async #session(user, response) {
    this.asked += 1;
    await setTimeout(this.delayMs);
    const headers = {
      "access-control-allow-origin": this.saleOrigin, "access-control-allow-credentials": "true", vary: "origin",
      "cache-control": "no-store", "content-type": "application/json",
    };
    if (this.fails) return response.writeHead(503, headers).end("{}");
    if (!user) return response.writeHead(401, headers).end("{}");
    response.writeHead(200, headers).end(JSON.stringify({ token: this.#token(user) }));
  }

  #token(user) {
    const now = Math.floor(Date.now() / 1_000);
    const claims = {
      sub: user, iat: now, exp: now + this.tokenSeconds, iss: variable("JWT_ISSUER"), aud: variable("JWT_AUDIENCE"),
    };
    const encode = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const text = `${encode({ alg: "HS256", typ: "JWT" })}.${encode(claims)}`;
    return `${text}.${createHmac("sha256", variable("JWT_KEY")).update(text).digest("base64url")}`;
  }
}
