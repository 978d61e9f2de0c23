// What every benchmarked agent does, as in bench/script.py.
let open;
let gate = new Promise((resolve) => (open = resolve));

export async function* play(text) {
  const [verb, count] = text.split(' ');
  if (verb === 'fanout') {
    await gate;
    gate = new Promise((resolve) => (open = resolve));
  }
  if (verb === 'stream' || verb === 'fanout') {
    for (let index = 0; index < Number(count); index++) yield `d${String(index).padStart(4, '0')};`;
    return;
  }
  if (verb === 'go') open();
  yield text;
}
