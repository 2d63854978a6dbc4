// The shop's events endpoint: records every delivery, and returns the statuses that a test sets.

import { createServer } from "node:http";

import { variable } from "./app.js";

/** The endpoint, which listens on the port that the app sends events to. */
export class Shop {
  /** `{path, headers, body}` of every delivery attempt. */
  attempts = [];
  #responses = [];
  // Node's default keep-alive timeout of five seconds would close the connection just when the app retries a delivery.
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

  /** Returns this status for the next delivery whose body contains `name`, an activity or order; otherwise 204. */
  respondOnce(name, status, headers) {
    this.#responses.push({ name, status, headers });
  }

  /** The delivery attempts for an order, oldest first. */
  eventsOf(order) {
    return this.attempts.filter(({ body }) => JSON.parse(body).data.order_no === order);
  }
}
