// The client that these pages share (clients/js), and the requests that no other page needs.

import { createClient } from "../../client/index.js";
import * as session from "./session.js";

export { Problem, TICKETS_BEFORE_START, Unreachable, isTransient } from "../../client/index.js";

export const client = createClient({ token: session.token });

/** The server's clock. */
export const { clock } = client;

export const signIn = async (user) => (await client.call("POST", "/sandbox/sign-in", { body: { user } })).data;

/** Reads below `/api/admin`. Resolves to the response, or to null if its document is still that of `etag`. */
export const adminRead = async (path, token, etag) => {
  const answer = await client.call("GET", `/api/admin${path}`, { token, etag, timeout: 20_000 });
  return answer.status === 304 ? null : answer;
};

/** Sends a request to a route below `/api/admin`. With `version`, only if the activity still has that version. */
export const admin = async (method, path, token, body, { version, headers } = {}) =>
  (await client.call(method, `/api/admin${path}`, { token, body, version, headers, timeout: 20_000 })).data;
