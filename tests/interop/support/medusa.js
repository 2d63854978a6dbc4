// A Medusa shop with a database in the ledger's server, and the connector of examples/shop.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

import { eventually, freePort, variable } from "./app.js";

const CREDENTIALS = { email: "operator@shop.example", password: "only for tests" };

/** The folder where its packages are installed. */
const folder = process.env.MEDUSA;

/** Runs a command of Medusa and waits until it ends. */
async function run(env, ...args) {
  const child = spawn("node", ["node_modules/.bin/medusa", ...args], { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => { output += chunk; });
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`medusa ${args[0]}: ${output}`);
}

export class Medusa {
  #child;
  #authorization;

  /** Creates the database and an operator, and starts the shop. */
  async start() {
    const { Client } = createRequire(`${folder}/`)("pg");
    const client = new Client(variable("LEDGER"));
    await client.connect();
    await client.query("CREATE DATABASE medusa");
    await client.end();
    const database = `${new URL("/medusa", variable("LEDGER"))}?sslmode=disable`;
    const env = {
      PATH: `${folder}/node_modules/.bin:${process.env.PATH}`,
      HOME: folder,
      DATABASE_URL: database,
      NODE_ENV: "production",
      MEDUSA_DISABLE_TELEMETRY: "true",
    };
    await run(env, "db:migrate", "--skip-scripts");
    await run(env, "user", "-e", CREDENTIALS.email, "-p", CREDENTIALS.password);
    const port = await freePort();
    this.url = `http://127.0.0.1:${port}`;
    const args = ["node_modules/.bin/medusa", "start", "--host", "127.0.0.1", "--port", String(port)];
    this.#child = spawn("node", args, { cwd: folder, env, stdio: "ignore" });
    const isUp = async () => ({ done: await fetch(`${this.url}/health`).then(({ ok }) => ok, () => false) });
    await eventually("the shop", isUp, 120);
    this.#authorization = `Bearer ${(await this.#send("POST", "/auth/user/emailpass", CREDENTIALS)).token}`;
    const { api_key: key } = await this.call("POST", "/api-keys", { title: "stampede", type: "secret" });
    this.key = key.token;
    return this;
  }

  stop() {
    this.#child?.kill("SIGKILL");
  }

  async #send(method, path, body) {
    const headers = { "content-type": "application/json", ...(this.#authorization && { authorization: this.#authorization }) };
    const response = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text);
  }

  /** Calls the Admin API. */
  call(method, path, body) {
    return this.#send(method, `/admin${path}`, body);
  }

  /** Creates an item with this many units, a variant `item` for sales, and what orders need. Remembers their ids. */
  async stock(units) {
    const { sales_channel: channel } = await this.call("POST", "/sales-channels", { name: "Flash sales" });
    const { stock_location: location } = await this.call("POST", "/stock-locations", { name: "Warehouse" });
    await this.call("POST", `/stock-locations/${location.id}/sales-channels`, { add: [channel.id] });
    const { region } = await this.call("POST", "/regions", { name: "Europe", currency_code: "eur", countries: ["gb"] });
    const level = { location_id: location.id, stocked_quantity: units };
    const { inventory_item: item } = await this.call("POST", "/inventory-items", { sku: "stock", location_levels: [level] });
    const inventory = { manage_inventory: true, inventory_items: [{ inventory_item_id: item.id, required_quantity: 1 }] };
    const variant = { title: "Flash sale", sku: "item", options: { kind: "sale" }, prices: [], allow_backorder: true, ...inventory };
    const product = { title: "The item", status: "published", options: [{ title: "kind", values: ["sale"] }], variants: [variant] };
    await this.call("POST", "/products", { ...product, sales_channels: [{ id: channel.id }] });
    Object.assign(this, { channel: channel.id, location: location.id, region: region.id, item: item.id });
  }

  /** The units that the shop sells by itself. */
  async available() {
    const { inventory_levels: [level] } = await this.call("GET", `/inventory-items/${this.item}/location-levels`);
    return level.available_quantity;
  }

  /** All orders and drafts, with what was ordered. */
  async orders() {
    const fields = "id,status,custom_display_id,metadata,customer_id,total,*items,*shipping_address";
    const lists = ["orders", "draft-orders"].map((kind) => this.call("GET", `/${kind}?limit=500&fields=${fields}`));
    const [{ orders }, { draft_orders: drafts }] = await Promise.all(lists);
    return [...orders, ...drafts];
  }
}

/** A copy of examples/shop, in a folder with its package. */
export class Connector {
  #file = new URL("../shop.mjs", import.meta.url);
  #env;
  #server;
  /** What its processes wrote. */
  output = "";

  constructor(shop) {
    this.#env = {
      PATH: process.env.PATH,
      APP_URL: variable("URL").replace(/\/$/, ""),
      OPERATOR_TOKEN: variable("OPERATOR_TOKENS").split(":")[2],
      EVENTS_SECRET: variable("EVENTS_SECRET"),
      PORT: variable("PORT_EVENTS"),
      MEDUSA_URL: shop.url,
      MEDUSA_KEY: shop.key,
      MEDUSA_LOCATION: shop.location,
      MEDUSA_CHANNEL: shop.channel,
      MEDUSA_REGION: shop.region,
    };
  }

  install() {
    return copyFile(new URL("../../../examples/shop/shop.mjs", import.meta.url), this.#file);
  }

  async remove() {
    await this.stop();
    await rm(this.#file);
  }

  #spawn(...args) {
    const child = spawn("node", [fileURLToPath(this.#file), ...args], { env: this.#env });
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => { this.output += chunk; });
    return child;
  }

  /** Runs a command; with `milliseconds` it is killed then. Resolves to its exit code. */
  async run(args, milliseconds) {
    const child = this.#spawn(...args);
    const timer = milliseconds && setTimeout(() => child.kill("SIGKILL"), milliseconds);
    const [code] = await once(child, "close");
    clearTimeout(timer);
    return code;
  }

  /** Kills the receiver of events and starts it again. */
  async restart() {
    await this.stop();
    this.#server = this.#spawn("serve");
  }

  /** Kills the receiver of events, if it runs. */
  async stop() {
    if (!this.#server) return;
    this.#server.kill("SIGKILL");
    await once(this.#server, "close");
    this.#server = undefined;
  }
}
