// The styles of a view come with the view.
const loaded = new Map();

// Resolves when css/NAME.css is in force, so that a view is not drawn without it.
export function ensureStyle(name) {
  if (!loaded.has(name)) {
    const element = document.createElement("link");
    element.rel = "stylesheet";
    element.href = `/console/css/${name}.css`;
    loaded.set(
      name,
      new Promise((done) => {
        element.onload = element.onerror = done;
        document.head.append(element);
      }),
    );
  }
  return loaded.get(name);
}
