// The dialog that resets the committed offsets of a group, with a preview.
import { html, useState } from "../html.js";
import { api } from "../api.js";
import { Dialog } from "../parts/dialog.js";
import { count, ofInput, some } from "../format.js";

const TARGETS = [
  ["earliest", "earliest"],
  ["latest", "latest"],
  ["time", "a time"],
  ["offset", "an offset"],
  ["shift", "shift by"],
  ["group", "offsets of another group"],
];

export function Reset({ group, onClose }) {
  const topics = [...new Set(group.offsets.map((each) => each.topic))];
  const [chosen, choose] = useState(topics);
  const [to, setTo] = useState("earliest");
  const [value, setValue] = useState("");
  const [rows, setRows] = useState(null);
  const isTime = to === "time";
  const wants = ["time", "offset", "shift", "group"].includes(to);
  const body = () => ({
    topics: chosen.map((topic) => ({ topic })),
    to,
    ...(wants && {
      [isTime ? "time_ms" : to]: isTime ? ofInput(value) : to === "group" ? value : Number(value),
    }),
  });
  const path = `/groups/${encodeURIComponent(group.group)}/reset`;
  const send = async () => {
    if (rows === null) {
      setRows((await api(path, { method: "POST", body: { ...body(), dry_run: true } })).partitions);
      return false;
    }
    await api(path, { method: "POST", body: { ...body(), dry_run: false } });
  };
  const changed = (set) => (event) => {
    set(event.target.value);
    setRows(null);
  };
  const tick = (topic) => (event) => {
    choose(event.target.checked ? [...chosen, topic] : chosen.filter((each) => each !== topic));
    setRows(null);
  };
  return html`
    <${Dialog} title=${`Reset offsets of ${group.group}`}
        send=${rows === null ? "Preview" : "Reset offsets"} onSend=${send} onClose=${onClose} wide>
      ${
        group.members > 0 &&
        html`
          <p class="notice warn">
            The group has ${some(group.members, "member")}. Stop them first: offsets can only be
            reset while the group has no members.
          </p>
        `
      }
      <fieldset class="row">
        ${topics.map(
          (topic) => html`
            <label class="check">
              <input type="checkbox" checked=${chosen.includes(topic)} onChange=${tick(topic)} />
              ${topic}
            </label>
          `,
        )}
      </fieldset>
      <div class="row">
        <label>
          To
          <select value=${to}
              onChange=${(event) => {
                setTo(event.target.value);
                setValue("");
                setRows(null);
              }}>
            ${TARGETS.map(([id, text]) => html`<option value=${id}>${text}</option>`)}
          </select>
        </label>
        ${
          wants &&
          html`
            <label>
              ${
                {
                  time: "Time",
                  shift: "Records (negative: back)",
                  offset: "Offset",
                  group: "Group",
                }[to]
              }
              <input required type=${{ time: "datetime-local", group: "text" }[to] ?? "number"}
                  step="1" value=${value} onInput=${changed(setValue)} />
            </label>
          `
        }
      </div>
      ${
        rows &&
        html`
          <div class="scroll">
            <table>
              <thead>
                <tr>
                  <th scope="col">Topic</th>
                  <th scope="col" class="num">Partition</th>
                  <th scope="col" class="num">From</th>
                  <th scope="col" class="num">To</th>
                  <th scope="col" class="num">Log start</th>
                  <th scope="col" class="num">Log end</th>
                  <th scope="col">Note</th>
                </tr>
              </thead>
              <tbody>
                ${rows.map(
                  (row) => html`
                    <tr>
                      <td>${row.topic}</td>
                      <td class="num">${row.partition}</td>
                      <td class="num">${count(row.before)}</td>
                      <td class="num"><b>${count(row.after)}</b></td>
                      <td class="num">${count(row.start)}</td>
                      <td class="num">${count(row.end)}</td>
                      <td class="muted">${row.note}</td>
                    </tr>
                  `,
                )}
              </tbody>
            </table>
          </div>
        `
      }
    <//>
  `;
}
