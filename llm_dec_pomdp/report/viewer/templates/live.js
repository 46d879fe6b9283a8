
// A page of a running benchmark: reports new episodes, and shows them after a click.

(async () => {
  const state = async () => (await fetch("state")).text();
  const first = await state();
  const more = element("p", null, document.querySelector("header"), "soft");
  more.setAttribute("role", "status");
  for (;;) {
    await new Promise((next) => setTimeout(next, 2000));
    const now = await state().catch(() => null);
    if (now === null) more.textContent = "The server has stopped.";
    else if (now !== first && !more.querySelector("button")) {
      more.replaceChildren("There are new episodes. ");
      button("Show them", more, () => location.reload());
    }
  }
})();
