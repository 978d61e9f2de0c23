// `Answer`: a form for a question that says what it expects: options, or a JSON Schema.
import { html, useState } from "../lib/html.js";
import { line, safe } from "../lib/format.js";
import { Field } from "./basics.js";

const MOST_OPTIONS = 50;
const MOST_FIELDS = 60;

// What a question expects: `{ options }`, `{ schema }`, or null. The names are those that agents use.
export function expectedAnswer(parts) {
  for (const { data } of parts ?? []) {
    if (data === null || typeof data !== "object") continue;
    const listed = data.options ?? data.choices ?? data.enum ?? (Array.isArray(data) ? data : null);
    if (Array.isArray(listed) && listed.length) {
      const options = listed.map(optionOf).filter(Boolean).slice(0, MOST_OPTIONS);
      if (options.length) return { options };
    }
    const schema = data.requestedSchema ?? data.schema ?? data.jsonSchema ?? data.inputSchema ?? data;
    if (schema?.type === "object" && schema.properties && typeof schema.properties === "object") return { schema };
    if (Array.isArray(schema?.enum)) return { options: schema.enum.map(optionOf).filter(Boolean).slice(0, MOST_OPTIONS) };
  }
  return null;
}

function optionOf(option) {
  if (["string", "number", "boolean"].includes(typeof option)) return { label: String(option), value: option };
  if (option === null || typeof option !== "object") return null;
  const value = option.value ?? option.id ?? option.const ?? option.optionId ?? option.name ?? option.label ?? option.title;
  const label = option.label ?? option.title ?? option.name ?? option.text ?? value;
  return value === undefined ? null : { label: String(label), value, description: option.description };
}

// Buttons, one for each option. `onAnswer(parts)` sends it.
export function Options({ options, onAnswer, isDisabled }) {
  return html`<div class="options" role="group" aria-label="Answers">${options.map(
    (option, i) => html`<button key=${i} type="button" class=${i === 0 ? "primary" : ""} disabled=${isDisabled} title=${option.description ? line(option.description, 300) : undefined}
      onClick=${() => onAnswer([partOf(option.value)])}><bdi>${line(option.label, 120)}</bdi></button>`,
  )}</div>`;
}

const partOf = (value) => (typeof value === "string" ? { text: value } : typeof value === "object" ? { data: value } : { text: String(value) });

export function SchemaForm({ schema, onAnswer, isDisabled, acceptsData = true }) {
  const [values, setValues] = useState(() => defaults(schema));
  const [faults, setFaults] = useState({});
  const names = Object.keys(schema.properties).slice(0, MOST_FIELDS);
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const submit = (event) => {
    event.preventDefault();
    const answer = {};
    const found = {};
    for (const name of names) {
      const { value, fault } = checked(schema.properties[name] ?? {}, values[name], required.has(name));
      if (fault) found[name] = fault;
      else if (value !== undefined) answer[name] = value;
    }
    setFaults(found);
    if (Object.keys(found).length) return;
    onAnswer([acceptsData ? { data: answer } : { text: JSON.stringify(answer) }]);
  };
  return html`<form class="answer-form" onSubmit=${submit}>
    ${schema.title ? html`<h3 dir="auto">${line(schema.title, 200)}</h3>` : null}
    ${names.map((name) => html`<${Member} key=${name} name=${name} schema=${schema.properties[name] ?? {}} value=${values[name]}
      isRequired=${required.has(name)} fault=${faults[name]} onChange=${(value) => setValues({ ...values, [name]: value })} />`)}
    <button class="primary" disabled=${isDisabled}>Answer</button>
  </form>`;
}

function defaults(schema) {
  const values = Object.create(null);
  for (const [name, each] of Object.entries(schema.properties)) {
    if (each?.default === undefined) continue;
    values[name] = typeof each.default === "object" ? JSON.stringify(each.default, null, 2) : each.default;
  }
  return values;
}

const typeName = (schema) => (Array.isArray(schema.type) ? schema.type.find((each) => each !== "null") : schema.type);

function Member({ name, schema, value, isRequired, fault, onChange }) {
  const label = html`<bdi>${line(schema.title ?? name, 120)}</bdi>${isRequired ? " (required)" : ""}`;
  const hint = schema.description ? safe(schema.description, 500) : undefined;
  const onInput = (event) => onChange(event.target.value);
  let field;
  const choices = Array.isArray(schema.enum) ? schema.enum : (schema.oneOf ?? schema.anyOf)?.map?.((each) => each?.const).filter((each) => each !== undefined);
  if (typeName(schema) === "boolean") {
    return html`<label class="field row"><input type="checkbox" checked=${value === true} onChange=${(event) => onChange(event.target.checked)} /><span class="label">${label}</span>
      ${hint ? html`<span class="hint" dir="auto">${hint}</span>` : null}</label>`;
  }
  if (choices?.length) {
    field = html`<select value=${value === undefined ? "" : String(choices.indexOf(value))} onChange=${(event) => onChange(event.target.value === "" ? undefined : choices[Number(event.target.value)])}>
      <option value="">Choose</option>${choices.slice(0, 500).map((each, i) => html`<option value=${String(i)}>${line(each, 120)}</option>`)}</select>`;
  } else if (["object", "array"].includes(typeName(schema))) {
    field = html`<textarea rows="4" placeholder="JSON" value=${value ?? ""} onInput=${onInput}></textarea>`;
  } else {
    const kinds = { email: "email", uri: "url", date: "date", "date-time": "text", time: "time" };
    const isNumber = ["number", "integer"].includes(typeName(schema));
    field = (schema.maxLength ?? 0) > 200
      ? html`<textarea rows="4" value=${value ?? ""} onInput=${onInput}></textarea>`
      : html`<input type=${isNumber ? "number" : schema.format === "password" ? "text" : (kinds[schema.format] ?? "text")} step=${isNumber ? (typeName(schema) === "integer" ? "1" : "any") : undefined}
        min=${isNumber ? schema.minimum : undefined} max=${isNumber ? schema.maximum : undefined} autocomplete="off" value=${value ?? ""} onInput=${onInput} />`;
  }
  return html`<${Field} label=${label} hint=${hint} error=${fault}>${field}<//>`;
}

function checked(schema, value, isRequired) {
  const type = typeName(schema);
  if (value === undefined || value === "") {
    if (type === "boolean") return { value: isRequired ? false : undefined };
    return isRequired ? { fault: "Fill this in." } : { value: undefined };
  }
  if (type === "number" || type === "integer") {
    const number = Number(value);
    if (!Number.isFinite(number) || (type === "integer" && !Number.isInteger(number))) return { fault: `This must be ${type === "integer" ? "a whole number" : "a number"}.` };
    if (number < schema.minimum) return { fault: `At least ${schema.minimum}.` };
    if (number > schema.maximum) return { fault: `At most ${schema.maximum}.` };
    return { value: number };
  }
  if (type === "object" || type === "array") {
    try {
      return { value: JSON.parse(value) };
    } catch {
      return { fault: "This must be JSON." };
    }
  }
  if (typeof value === "string") {
    if (value.length < schema.minLength) return { fault: `At least ${schema.minLength} characters.` };
    if (value.length > schema.maxLength) return { fault: `At most ${schema.maxLength} characters.` };
  }
  return { value };
}
