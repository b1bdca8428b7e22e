import { html, useState } from "../html.js";
import { api } from "../api.js";

export function Login({ onIn, hasService, warning }) {
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    try {
      await api("/login", { method: "POST", body: { name: user, password } });
      onIn();
    } catch (refused) {
      setError(refused.message);
      setPassword("");
    }
  };
  return html`
    <main class="login">
      <form class="card fields" onSubmit=${submit}>
        <h1>appliance</h1>
        ${warning && html`<p class="notice bad">${warning}</p>`}
        <label>
          User
          <input name="user" autocomplete="username" required autofocus value=${user}
              onInput=${(event) => setUser(event.target.value)} />
        </label>
        <label>
          Password
          <input name="password" type="password" autocomplete="current-password" required
              value=${password} onInput=${(event) => setPassword(event.target.value)} />
        </label>
        ${error && html`<p class="notice bad" role="alert">${error}</p>`}
        <button class="primary">Log in</button>
        ${hasService && html`<a class="button" href="/api/v1/login/oidc">Single sign-on</a>`}
      </form>
    </main>
  `;
}

/** The page behind the link that the broker prints at its first start. */
export function Setup({ secret, onIn }) {
  const [name, setName] = useState("admin");
  const [password, setPassword] = useState("");
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    try {
      await api("/setup", { method: "POST", body: { token: secret, name, password } });
      onIn();
    } catch (refused) {
      setError(refused.message);
    }
  };
  return html`
    <main class="login">
      <form class="card fields" onSubmit=${submit}>
        <h1>Create the first user</h1>
        <p class="muted">
          After this the console asks for a password. This user is an admin and can create other
          users.
        </p>
        <label>
          User
          <input name="user" autocomplete="username" required value=${name}
              onInput=${(event) => setName(event.target.value)} />
        </label>
        <label>
          Password
          <input name="password" type="password" autocomplete="new-password" required autofocus
              value=${password} onInput=${(event) => setPassword(event.target.value)} />
        </label>
        ${error && html`<p class="notice bad" role="alert">${error}</p>`}
        <button class="primary">Create user</button>
      </form>
    </main>
  `;
}
