// The countdown to the reset, in the format of the server.
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

// My usage updates itself: it fetches the page again and replaces the parts
// that changed since the last answer of the server.
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
	if (!answer.ok) throw new Error("update failed");
	const page = new DOMParser().parseFromString(await answer.text(), "text/html");
	if (page.querySelectorAll("[data-live]").length !== sent.size) {
		location.reload(); // the page has other parts, for instance after the first call
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
