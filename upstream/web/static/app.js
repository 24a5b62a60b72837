// Everything here is a convenience: each page works without it.

// Copy buttons, which are hidden where this does not run.
for (const button of document.querySelectorAll("[data-copy]")) {
	button.hidden = !navigator.clipboard;
	button.addEventListener("click", async () => {
		const from = document.getElementById(button.dataset.copy);
		const status = document.getElementById("copied");
		try {
			await navigator.clipboard.writeText(from.textContent);
			status.textContent = "Copied.";
		} catch {
			getSelection().selectAllChildren(from);
			status.textContent = "Press Ctrl+C to copy what is selected.";
		}
	});
}

// The countdown to the reset, in the words of the server.
function countDown() {
	for (const span of document.querySelectorAll("[data-countdown]")) {
		const left = Math.max(0, Date.parse(span.dataset.countdown) - Date.now());
		const hours = Math.floor(left / 3600000);
		const minutes = Math.floor(left / 60000) % 60;
		const text = hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min` : "less than a minute";
		if (span.textContent !== text) span.textContent = text;
	}
}
setInterval(countDown, 1000);

// My usage shows the latest: the page is fetched again, and the parts of
// it that changed are put in place of the old ones. A part is compared
// with what the server last sent, not with what the page made of it.
const live = () => document.querySelectorAll("[data-live]");
const pause = document.getElementById("pause");
const sent = new Map([...live()].map((part) => [part.id, part.innerHTML]));
let paused = false;

async function update() {
	if (paused || document.hidden) return;
	const answer = await fetch(location.pathname + "?background=1", { cache: "no-store" });
	if (answer.redirected) {
		location.reload(); // the session has ended
		return;
	}
	if (!answer.ok) throw new Error("no answer to use");
	const page = new DOMParser().parseFromString(await answer.text(), "text/html");
	if (page.querySelectorAll("[data-live]").length !== sent.size) {
		location.reload(); // the first call, or another plan: another page
		return;
	}
	for (const part of live()) {
		const now = page.getElementById(part.id);
		if (now && now.innerHTML !== sent.get(part.id)) {
			sent.set(part.id, now.innerHTML);
			part.replaceChildren(...now.childNodes);
		}
	}
}

if (pause) {
	const tick = async () => {
		try {
			await update();
			pause.textContent = "Pause updates";
		} catch {
			pause.textContent = "Reconnecting"; // the next tick tries again
		}
		setTimeout(tick, 3000);
	};
	setTimeout(tick, 3000);
	pause.hidden = false;
	pause.addEventListener("click", () => {
		paused = !paused;
		pause.setAttribute("aria-pressed", paused);
	});
}
