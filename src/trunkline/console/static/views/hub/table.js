// `Table`: rows with named columns, which become blocks on narrow screens; and `Pages` of a list.
import { html, useState } from "../../lib/html.js";

// `columns` are `{ title, cell(row) }`; the first one is the head of its row. The roles are stated
// because browsers forget those of a table that is laid out as blocks.
export function Table({ label, columns, rows, rowKey }) {
  return html`<table class="plain hub-table" role="table" aria-label=${label}>
    <thead role="rowgroup"><tr role="row">${columns.map(({ title }) => html`<th key=${title} role="columnheader" scope="col">${title}</th>`)}</tr></thead>
    <tbody role="rowgroup">${rows.map(
      (row) => html`<tr key=${rowKey(row)} role="row">${columns.map(({ title, cell }, at) =>
        at
          ? html`<td key=${title} role="cell"><span class="cell-title" aria-hidden="true">${title}</span><div class="cell">${cell(row)}</div></td>`
          : html`<th key=${title} role="rowheader" scope="row">${cell(row)}</th>`,
      )}</tr>`,
    )}</tbody></table>`;
}

// The place in a list that comes in pages: `token` of the page that is shown, and the buttons.
export function usePages() {
  const [tokens, setTokens] = useState([""]);
  return {
    token: tokens.at(-1),
    reset: () => setTokens([""]),
    buttons: (data) =>
      data?.nextPageToken || tokens.length > 1
        ? html`<nav class="row end" aria-label="Pages">
            <button type="button" disabled=${tokens.length < 2} onClick=${() => setTokens(tokens.slice(0, -1))}>Previous</button>
            <button type="button" disabled=${!data?.nextPageToken} onClick=${() => setTokens([...tokens, data.nextPageToken])}>Next</button>
          </nav>`
        : null,
  };
}
