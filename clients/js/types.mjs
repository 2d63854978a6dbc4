// Writes types/api.d.ts: the schemas of the buyers' routes, from the app's OpenAPI document.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const BUYERS = ["activities", "buying", "orders"];

const { components, paths, openapi, info } = JSON.parse(await readFile(new URL("../../static/openapi.json", import.meta.url), "utf8"));
const document = { openapi, info, components: {}, paths: Object.fromEntries(
  Object.entries(paths).filter(([, path]) => Object.values(path).some(({ tags }) => BUYERS.includes(tags?.[0]))),
) };
// What they refer to, and what that refers to.
const add = (value) => {
  for (const [, kind, name] of JSON.stringify(value).matchAll(/"#\/components\/(\w+)\/([\w-]+)"/g)) {
    if (document.components[kind]?.[name]) continue;
    (document.components[kind] ??= {})[name] = components[kind][name];
    add(components[kind][name]);
  }
};
add(document.paths);
await mkdir(new URL("types/", import.meta.url), { recursive: true });
await writeFile(new URL("types/api.d.ts", import.meta.url), astToString(await openapiTS(document, { defaultNonNullable: false })));
