// Reads deliveries, one JSON object a line: {secret, headers, body}. Says of each what the two libraries make of it.
import { createInterface } from "node:readline";
import { HTTP } from "cloudevents";
import { Webhook } from "standardwebhooks";

for await (const line of createInterface({ input: process.stdin })) {
  const { secret, headers, body } = JSON.parse(line);
  const result = {};
  try {
    new Webhook(secret).verify(body, headers);
    result.signature = "good";
  } catch (error) {
    result.signature = String(error);
  }
  try {
    const event = HTTP.toEvent({ headers, body });
    event.validate();
    result.event = { id: event.id, type: event.type, source: event.source, sequence: event.sequence,
                     subject: event.subject };
  } catch (error) {
    result.event = String(error);
  }
  console.log(JSON.stringify(result));
}
