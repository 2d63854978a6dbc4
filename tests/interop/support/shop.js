// The shop's endpoint of events: remembers what came, and answers as it is told.

import { createServer } from "node:http";

import { variable } from "./app.js";

/** The endpoint, listening where the app sends events. */
export class Shop {
  /** `{headers, body}` of every attempt. */
  attempts = [];
  #responses = [];
  // A connection that closes by itself would do so when a failed attempt is due again: after five seconds.
  #server = createServer({ keepAliveTimeout: 120_000 }, async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    this.attempts.push({ path: request.url, headers: request.headers, body });
    const index = this.#responses.findIndex(({ name }) => body.includes(name));
    const [{ status, headers }] = index < 0 ? [{ status: 204 }] : this.#responses.splice(index, 1);
    response.writeHead(status, headers);
    response.end();
  });

  async start() {
    await new Promise((resolve) => this.#server.listen(Number(variable("PORT_EVENTS")), "127.0.0.1", resolve));
    return this;
  }

  stop() {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(resolve));
  }

  /** Answers the next attempt whose body names `about`, a sale or an order, with this status; the others with 204. */
  respondOnce(name, status, headers) {
    this.#responses.push({ name, status, headers });
  }

  /** What came about an order, in order. */
  eventsOf(order) {
    return this.attempts.filter(({ body }) => JSON.parse(body).data.order_no === order);
  }
}
