// Sign-in by the shop's own session: its page signs visitors in, its session endpoint gives their tokens.

import * as session from "../session.js";
import { getJson } from "./requests.js";

/** The way to sign in with these settings. */
export function shopSession({ sign_in_url: signInUrl, session_url: sessionUrl }) {
  /** Asks the shop who is signed in. */
  async function renew() {
    const { status, data } = await getJson(sessionUrl, { credentials: "include" });
    if (status === 401) return null;
    if (status !== 200 || typeof data?.token !== "string") throw new Error(`the session endpoint answers ${status}`);
    return data.token;
  }

  /** Sends the visitor to the shop's page, unless another tab has signed in. */
  async function signIn() {
    const token = await renew().catch(() => null);
    if (token) {
      session.storeToken(token);
      return token;
    }
    const page = new URL(signInUrl);
    page.searchParams.set("return_to", location.origin + location.pathname + location.search);
    location.assign(page.href);
    return new Promise(() => {});
  }

  return { opensDialog: false, canSignOut: false, hasSession: true, renew, signIn };
}
