// Dialogs of a topic: more partitions, empty, delete.
import { html, useState } from "../html.js";
import { api } from "../api.js";
import { go } from "../router.js";
import { Dialog } from "../parts/dialog.js";
import { some } from "../format.js";

export function Grow({ topic, partitions, onClose }) {
  const [wanted, setWanted] = useState(partitions + 1);
  const grow = () =>
    api(`/topics/${encodeURIComponent(topic)}`, {
      method: "PATCH",
      body: { partitions: Number(wanted) },
    });
  return html`
    <${Dialog} title=${`Partitions of ${topic}`} send="Add partitions" onSend=${grow}
        onClose=${onClose}>
      <div class="fields">
        <label>
          New number of partitions
          <input type="number" min=${partitions + 1} required value=${wanted}
              onInput=${(event) => setWanted(event.target.value)} />
        </label>
        <p class="muted">
          The topic has ${some(partitions, "partition")}. This cannot be undone. New records of a
          key may go to another partition than its older records.
        </p>
      </div>
    <//>
  `;
}

export function Remove({ topic, records, onClose, isWhole }) {
  const path = `/topics/${encodeURIComponent(topic)}`;
  const remove = async () => {
    await api(isWhole ? path : `${path}/empty`, {
      method: isWhole ? "DELETE" : "POST",
      body: isWhole ? undefined : {},
    });
    if (isWhole) go(["topics"]);
  };
  return html`
    <${Dialog} title=${isWhole ? `Delete ${topic}` : `Empty ${topic}`}
        send=${isWhole ? "Delete" : "Empty"} danger confirm=${topic} onSend=${remove}
        onClose=${onClose}>
      <p>
        ${
          isWhole
            ? `The topic and its ${some(records, "record")} are deleted.`
            : `${some(records, "record")} will be deleted. The topic and its next offsets stay.`
        }
        ${" "}This cannot be undone.
      </p>
    <//>
  `;
}
