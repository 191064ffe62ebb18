// Holds the objects on standard input, a JSON list, against the schemas of the Prometheus operator in the folder that is named.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder] = process.argv.slice(2);
let failed = false;
for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const models = await import(pathToFileURL(`${folder}/${object.apiVersion}/${object.kind}.js`));
  try {
    new models[object.kind](object).validate();
  } catch (error) {
    console.error(`${object.kind} ${object.metadata?.name}: ${error.message}`);
    failed = true;
  }
}
process.exit(failed ? 1 : 0);
