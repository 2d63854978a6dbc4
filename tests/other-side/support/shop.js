// The shop's endpoint of events: remembers what came, and answers as it is told.

import { createServer } from "node:http";

import { variable } from "./app.js";

/** The endpoint, listening where the app sends events. */
export class Shop {
  /** `{headers, body}` of every attempt. */
  attempts = [];
  /** Answers to come, one for each attempt: a status or `[status, headers]`; 204 when there are no more. */
  answers = [];
  #server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    this.attempts.push({ path: request.url, headers: request.headers, body: Buffer.concat(chunks).toString() });
    const answer = this.answers.shift() ?? 204;
    const [status, headers] = Array.isArray(answer) ? answer : [answer, {}];
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

  /** What came about an order, in order. */
  about(order) {
    return this.attempts.filter(({ body }) => JSON.parse(body).data.order_no === order);
  }
}
