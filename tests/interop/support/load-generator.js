// A small sale of the load generator, whose buyers pay at the payment pages of their orders (G10).

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { variable } from "./app.js";

/** Runs the sale, which must keep every invariant. Resolves to its report. */
export async function simulateSale() {
  const { CARGO_TARGET_DIR: target = "../../target", ...rest } = process.env;
  const names = ["JWT_KEY", "JWT_ISSUER", "JWT_AUDIENCE"];
  const env = { ...rest, ...Object.fromEntries(names.map((name) => [`SPIN_VARIABLE_${name}`, variable(name)])) };
  const options = { url: variable("URL"), "admin-token": variable("ADMIN_TOKEN"), "cron-token": variable("CRON_TOKEN"), "env-file": "none",
    pay: "page", buyers: 10, stock: 5, "pay-share": 1, "cancel-share": 0, "start-in": 2, "pay-timeout": 30 };
  const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const { stdout } = await promisify(execFile)(`${target}/release/stampede-load`, ["sale", ...flags], { env });
  return stdout;
}
