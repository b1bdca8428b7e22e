// The health of the broker in one sentence, and tiles with its facts that link to other pages.
import { html, useMemo } from "../html.js";
import { useLive } from "../live.js";
import { Age, Badge, Bar, Head, LEVELS, Mark, Tile } from "../parts/bits.js";
import { Chart } from "../parts/chart.js";
import { DoubtedClock } from "./clock.js";
import { OpenLosses } from "./loss_ledger.js";
import { ago, bytes, clock, count, duration, percent, rate, short, some, time } from "../format.js";

function Sentence({ facts }) {
  const level = LEVELS[facts.status];
  return html`
    <section class=${`card sentence ${level}`} aria-live="polite">
      <div class="mark" style="font-size:1.3rem"><${Mark} level=${level} /></div>
      <div>
        <p>${facts.sentence}</p>
        ${
          facts.findings.length > 1 &&
          html`
            <ul>
              ${facts.findings.map(
                (each) => html`
                  <li><${Badge} level=${LEVELS[each.level]}>${each.level}<//> ${each.text}</li>
                `,
              )}
            </ul>
          `
        }
      </div>
    </section>
  `;
}

function Traffic({ samples, skipped, until }) {
  const data = useMemo(
    () => [
      samples.map((each) => each.at_ms / 1000),
      samples.map((each) => each.in_bytes_per_s),
      samples.map((each) => each.out_bytes_per_s),
    ],
    [samples],
  );
  return html`
    <section class="card wide">
      <div class="head">
        <h2><a href="#/history">Traffic</a></h2>
        <span class="muted">
          ${until ? `ten minutes up to ${clock(until)}` : "the last ten minutes"}
          ${
            skipped > 0 && `; ${count(skipped)} events came too fast for this page and were skipped`
          }
        </span>
      </div>
      <${Chart} label="Traffic, in and out" series=${["in", "out"]} data=${data} unit=${rate}
          idle="Idle: nothing came in or went out." />
    </section>
  `;
}

function forecastText(storage) {
  const {
    written_bytes_per_s: written,
    steady_bytes: steady,
    full_in_s: full,
    free_bytes: free,
    logs_bytes: used,
  } = storage;
  if (written === null) return "the rate of growth is known after a minute";
  if (full !== null) return `full in ${duration(full)} at the present rate`;
  if (steady === null) return "no retention limit, and no writes";
  return `retention keeps ${bytes(steady)}, ${percent(steady / (free + used))} of the disk`;
}

function Storage({ storage }) {
  const full = 1 - storage.free_bytes / storage.total_bytes;
  const level = storage.is_full ? "bad" : full > 0.8 ? "warn" : undefined;
  return html`
    <${Tile} title="Storage" value=${bytes(storage.logs_bytes)} unit="of logs" level=${level}
        href="#/topics?sort=-size_bytes">
      <${Bar} share=${full} level=${level ?? "good"} />
      <p>${bytes(storage.free_bytes)} free, the disk is ${percent(full)} full</p>
      <p>${forecastText(storage)}</p>
      <p>${bytes(storage.reserve_bytes)} reserved for a start on a full disk</p>
    <//>
  `;
}

function Durability({ unflushed }) {
  const { records, last_flush_ms: took, last_flush_ago_ms: ago } = unflushed;
  return html`
    <${Tile} title="Unflushed" value=${records ? bytes(unflushed.bytes) : "none"} level="good">
      <p>
        ${
          records
            ? `${some(records, "record")}, the oldest ${duration(unflushed.oldest_ms / 1000)} old`
            : "all records are on disk"
        }
      </p>
      <p>
        ${
          took === null
            ? "no flush since the start"
            : `the last flush took ${duration(took / 1000)}, ${duration(ago / 1000)} ago`
        }
      </p>
    <//>
  `;
}

// a bucket bound of the broker's histogram, no more exact than that
const upTo = (ms) => (ms === null ? "–" : `≤ ${duration(ms / 1000)}`);

function Requests({ now, traffic }) {
  return html`
    <${Tile} title="Requests" value=${short((now?.produces_per_s ?? 0) + (now?.fetches_per_s ?? 0))}
        unit="a second" href="#/clients">
      <p>${some(now?.connections ?? 0, "connection")}</p>
      <p>p99 of produce ${upTo(traffic?.produce_p99_ms ?? null)}</p>
      <p>p99 of fetch ${upTo(traffic?.fetch_p99_ms ?? null)}</p>
    <//>
  `;
}

function Raid({ arrays }) {
  if (arrays.length === 0)
    return html`
      <${Tile} title="Disks" value="no software RAID">
        <p>the broker cannot see the state of a hardware controller</p>
      <//>
    `;
  const bad = arrays.filter((each) => each.condition !== "well");
  return html`
    <${Tile} title="Disks" value=${bad.length ? `${bad.length} with problems` : "all present"}
        level=${bad.length ? "bad" : "good"}>
      ${arrays.map(
        (each) => html`
          <p>
            ${each.name} ${each.level}: ${each.condition}
            ${each.missing ? `, ${each.missing} missing` : ""}
            ${each.done !== null ? `, ${each.action} ${percent(each.done)}` : ""}
          </p>
        `,
      )}
    <//>
  `;
}

function Consumers({ groups, worst }) {
  const isBehind = worst !== null && worst.records > 0;
  const isLate = isBehind && worst.seconds !== null;
  return html`
    <${Tile} title="Consumers" href="#/groups"
        value=${
          isBehind ? (isLate ? duration(worst.seconds) : short(worst.records)) : "no lag"
        } unit=${isBehind ? (isLate ? "of lag" : "records of lag") : ""}>
      <p>
        ${
          isBehind
            ? `${worst.group}, ${some(worst.records, "record")}`
            : "all groups have read all records"
        }
      </p>
      ${
        isBehind &&
        worst.no_commit_records > 0 &&
        html`<p>${count(worst.no_commit_records)} of them in partitions without a commit</p>`
      }
      <p>${some(groups, "group")}</p>
    <//>
  `;
}

function Exports({ of }) {
  const { failed, worst } = of;
  const level =
    failed || worst?.lost_records
      ? "bad"
      : worst?.seconds_left !== null && worst?.seconds_left < 86400
        ? "warn"
        : "good";
  const value = failed
    ? `${failed} failed`
    : worst?.behind_seconds
      ? duration(worst.behind_seconds)
      : worst?.behind_records
        ? short(worst.behind_records)
        : "no lag";
  return html`
    <${Tile} title="Exports" href="#/exports" level=${level} value=${value}
        unit=${
          failed || !worst?.behind_records ? "" : worst.behind_seconds ? "of lag" : "records of lag"
        }>
      <p>${worst ? `${worst.name}, ${count(worst.behind_records)} records` : ""}</p>
      <p>${count(of.exports)} defined</p>
    <//>
  `;
}

const NoBackup = () => html`
  <${Tile} title="Backups" value="none yet">
    <p>Arrays do not replace one: fire, theft and a wrong retention take all disks at once.</p>
    <p><code>appliance backup create --target /mnt/backup/box</code></p>
    <p><code>appliance backup restore --test --target /mnt/backup/box</code></p>
    <p>
      On a timer:${" "}
      <code>
        systemctl enable --now appliance-backup.timer appliance-restore-test.timer
      </code>
    </p>
  <//>
`;

const holds = (of) =>
  `${some(of.partitions, "partition")}, ${some(of.records, "record")}, ${bytes(of.bytes)}`;

function Tested({ test }) {
  if (!test)
    return html`
      <p>no restore was tested yet: <code>appliance backup restore --test</code></p>
    `;
  if (test.fault) return html`<p>the last test of a restore failed at ${time(test.at_ms)}</p>`;
  return html`
    <p>a restore was tested ${ago(test.at_ms)}: ${holds(test)}, all counts and checksums right</p>
  `;
}

function Backups({ of }) {
  const { last, test } = of;
  if (!last) return html`<${NoBackup} />`;
  const isBad = last.fault || of.is_overdue || test?.fault;
  return html`
    <${Tile} title="Backups" level=${isBad ? "warn" : "good"}
        value=${last.good_s === null ? "none is whole" : duration(last.good_s)}
        unit=${last.good_s === null ? "" : of.is_overdue ? "old, overdue" : "old"}>
      <p>
        ${
          last.fault
            ? `the last one failed at ${time(last.at_ms)}`
            : `${holds(last)}, took ${duration(last.took_s)}`
        }
      </p>
      <p>in ${last.target}</p>
      <${Tested} test=${test} />
    <//>
  `;
}

/** The state of a broker that does not answer. Its last health is old, and is not shown. */
function NotKnown({ since, samples }) {
  return html`
    <section class="card sentence unknown" aria-live="polite">
      <div class="mark" style="font-size:1.3rem"><${Mark} level="unknown" /></div>
      <div>
        <p>Unknown: the broker has not answered since ${clock(since)}, <${Age} of=${since} />.</p>
        <p class="muted">Its last health report is hidden, because it may be outdated.</p>
      </div>
    </section>
    ${
      samples.length > 1 &&
      html`
        <div class="loaded old">
          <div class="loaded">
            <div class="tiles"><${Traffic} samples=${samples} skipped=${0} until=${since} /></div>
          </div>
        </div>
      `
    }
  `;
}

export function Home({ me }) {
  const facts = useLive((state) => state.health);
  const isCut = useLive((state) => state.isCut);
  const since = useLive((state) => state.since);
  const samples = useLive((state) => state.samples);
  const skipped = useLive((state) => state.skipped);
  const now = samples.at(-1);
  if (isCut) return html`<${Head} title="Home" /><${NotKnown} since=${since} samples=${samples} />`;
  if (!facts) return html`<${Head} title="Home" /><p class="muted" aria-busy="true">…</p>`;
  return html`
    <${Head} title="Home" />
    <${Sentence} facts=${facts} />
    ${facts.findings.some((each) => each.area === "clock") && html`<${DoubtedClock} me=${me} />`}
    ${facts.findings.some((each) => each.area === "ledger") && html`<${OpenLosses} me=${me} />`}
    <div class="tiles">
      <${Traffic} samples=${samples} skipped=${skipped} />
      <${Requests} now=${now} traffic=${facts.traffic} />
      <${Consumers} groups=${facts.groups} worst=${facts.most_behind} />
      ${facts.exports?.exports > 0 && html`<${Exports} of=${facts.exports} />`}
      ${facts.storage && html`<${Storage} storage=${facts.storage} />`}
      ${facts.unflushed && html`<${Durability} unflushed=${facts.unflushed} />`}
      <${Tile} title="Topics" value=${count(facts.topics)} href="#/topics">
        <p>${some(facts.partitions, "partition")} with internal topics</p>
        <p>${bytes(facts.size_bytes)} of logs</p>
      <//>
      ${facts.backups && html`<${Backups} of=${facts.backups} />`}
      <${Raid} arrays=${facts.raid} />
      <${Tile} title="Service" value=${duration(facts.uptime_s)} unit="up" href="#/settings">
        <p>version ${facts.version}, node ${facts.node_id}</p>
        <p>Kafka <code>${facts.listeners.kafka}</code></p>
        <p>ZooKeeper ${facts.zookeeper ?? "not used"}</p>
        <p>clock ${facts.clock.state}</p>
      <//>
    </div>
  `;
}
