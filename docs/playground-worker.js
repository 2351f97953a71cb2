// Python in a worker, so that a program that does not end can be stopped.
let run = null;

async function load(source, archive) {
  const { loadPyodide } = await import(`${source}pyodide.mjs`);
  const python = await loadPyodide({ indexURL: source });
  const answer = await fetch(archive);
  if (!answer.ok) throw new Error(`${archive}: ${answer.status}`);
  python.unpackArchive(await answer.arrayBuffer(), "zip", { extractDir: "/packages" });
  python.runPython("import sys; sys.path.insert(0, '/packages')");
  run = python.runPython("from cutedialect.tools.playground import run; run");
  return python.runPython("sys.version.split()[0]");
}

onmessage = async ({ data }) => {
  try {
    const result = data.load
      ? await load(data.load, data.archive)
      : run(data.kind, data.text, data.words);
    postMessage({ number: data.number, result });
  } catch (error) {
    postMessage({ number: data.number, error: String(error.message || error) });
  }
};
