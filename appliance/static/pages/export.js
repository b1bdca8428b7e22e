// One export: its definition, its state, its runs, and the command for a backfill.
import { html, useState } from "../html.js";
import { api, useApi } from "../api.js";
import { go, href } from "../router.js";
import { Badge, Facts, Head, Loaded } from "../parts/bits.js";
import { Copy } from "../parts/copy.js";
import { Dialog } from "../parts/dialog.js";
import { Act, refusal } from "../parts/rights.js";
import { NextTimes, withZone, wordsOf } from "../parts/schedule.js";
import { count, duration, some, time } from "../format.js";
import { Edit } from "./export_form.js";
import { settings, written } from "./export_fields.js";
import { outcome, Runs, RunState } from "./export_runs.js";
import { HoldState } from "./exports.js";

/** Time first: that is what its readers wait for. */
function lag({ behind_records: records, behind_seconds: seconds }) {
  if (!records) return "none";
  const many = some(records, "record");
  return seconds === null
    ? `${many}, and none exported yet`
    : `${duration(seconds)} at most, ${many}`;
}

const PARTS = ["files", "columns", "tables", "keeping", "range"];
const settingsOf = (of) => settings({ ...written(of), schema: of.schema ?? "raw" }, PARTS);

function Next({ at, schedule }) {
  if (at) return `${time(at)}, in ${duration(Math.max(0, at - Date.now()) / 1000)}`;
  return schedule
    ? html`<${Badge} level="warn">no scheduler is running<//>`
    : "when somebody runs it";
}

function Left({ seconds }) {
  if (seconds === null) return "all records are exported";
  return html`
    <${Badge} level=${seconds < 6 * 3600 ? "bad" : seconds < 86400 ? "warn" : "good"}>
      in ${duration(seconds)}
    <//>
  `;
}

function State({ of }) {
  const { status } = of;
  const { schedule } = of;
  return html`
    ${status.late && html`<p class="notice warn">${status.late}</p>`}
    <section class="card">
      <${Facts}
          rows=${[
            [
              "Topics",
              status.topics.length
                ? status.topics.map(
                    (each) => html`<a href=${href(["topics", each])}>${each}</a>${" "}`,
                  )
                : "no matching topic",
            ],
            ...(status.fault
              ? [["Cannot run", html`<${Badge} level="bad">${status.fault}<//>`]]
              : []),
            ["Target", html`<code>${of.target}</code>`],
            ["Files", [`columns: ${of.schema ?? "raw"}`, ...settingsOf(of)].join(", ")],
            ["Schedule", withZone(schedule)],
            ["Next run", html`<${Next} at=${status.next_run_ms} schedule=${schedule} />`],
            schedule &&
              !status.fault && [
                "Due at",
                html`
                  <${NextTimes} words=${wordsOf(schedule)} zone=${schedule.timezone ?? "UTC"}
                      every=${60} />
                `,
              ],
            [
              "Last run",
              html`
                <${RunState} run=${status.last_run} />
                ${" "}
                ${
                  status.last_run &&
                  `${time(status.last_run.started_ms)}, ${outcome(status.last_run, schedule)}`
                }
              `,
            ],
            ["Lag", lag(status)],
            [
              "Retention deletes unexported records",
              html`<${Left} seconds=${status.seconds_left} />`,
            ],
            [
              "Deleted before export",
              status.lost_records
                ? html`<${Badge} level="bad">${count(status.lost_records)} records<//>`
                : "none",
            ],
            ...status.holds.map((each) => [
              `Hold ${each.name}`,
              html`<${HoldState} hold=${each} />`,
            ]),
          ]} />
    </section>
  `;
}

function Backfill({ topics }) {
  const range = "--from @2026-11-01 --to @2026-11-02";
  const command = `appliance export backfill ${topics.join(" ")} ${range} --target NEW-FOLDER`;
  return html`
    <section class="card">
      <div class="head"><h2>Backfill</h2></div>
      <p>A backfill exports a time range again, into a new folder. Run it where Spark runs:</p>
      <pre tabindex="0">${command}</pre>
      <div>
        <${Copy} text=${() => command} what="the command" />
      </div>
    </section>
  `;
}

export function Export({ route, me }) {
  const name = route.parts[1];
  const path = `/exports/${encodeURIComponent(name)}`;
  const one = useApi(path, 10);
  const runs = useApi(`${path}/runs?limit=200`, 10);
  const [asked, ask] = useState(null);
  const may = one.data && (one.data.status.may_change ? ["read"] : []);
  const why = refusal(me, may, "read", "all topics of the export");
  const forget = () => api(path, { method: "DELETE" }).then(() => go(["exports"]));
  const close = () => {
    ask(null);
    one.reload();
  };
  return html`
    <${Head} title=${name} crumbs=${html`<a href=${href(["exports"])}>Exports</a>`}>
      <${Act} why=${why} onClick=${() => ask("edit")}>Edit<//>
      <${Act} class="danger" why=${why} onClick=${() => ask("forget")}>Delete<//>
    <//>
    <${Loaded} from=${one}>
      ${(data) => html`
        <${State} of=${data} />
        ${asked === "edit" && html`<${Edit} of=${data} onClose=${close} />`}
      `}
    <//>
    <section class="card">
      <div class="head"><h2>Runs</h2></div>
      <${Loaded} from=${runs}>
        ${(data) => one.data && html`<${Runs} of=${one.data} runs=${data.runs} />`}
      <//>
    </section>
    <${Loaded} from=${one}>${(data) => html`<${Backfill} topics=${data.status.topics} />`}<//>
    ${
      asked === "forget" &&
      html`
        <${Dialog} title=${`Delete ${name}`} send="Delete" danger confirm=${name} onSend=${forget}
            onClose=${() => ask(null)}>
          <p>The definition and its history are deleted. Exported files are kept.</p>
        <//>
      `
    }
  `;
}
