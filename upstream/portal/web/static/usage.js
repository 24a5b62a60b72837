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
	const address = new URL(location.href);
	address.searchParams.set("background", "1");
	const answer = await fetch(address, { cache: "no-store" });
	const text = await answer.text();
	if (paused) return; // since the request began
	if (answer.redirected) {
		location.reload(); // the session has ended
		return;
	}
	if (!answer.ok) throw new Error("update failed");
	const page = new DOMParser().parseFromString(text, "text/html");
	if (page.querySelectorAll("[data-live]").length !== sent.size) {
		location.reload(); // the page has other parts, for instance after the first call
		return;
	}
	for (const part of live()) {
		const now = page.getElementById(part.id);
		if (now && now.innerHTML !== sent.get(part.id)) {
			const focused = part.contains(document.activeElement) && document.activeElement.classList.contains("plot");
			sent.set(part.id, now.innerHTML);
			part.replaceChildren(...now.childNodes);
			if (part.id === "chart") plot(focused);
		}
	}
}

if (pause) {
	const show = () => {
		pause.textContent = paused ? "Paused · Resume" : "Pause updates";
		pause.classList.toggle("paused", paused);
	};
	const tick = async () => {
		try {
			await update();
			show();
		} catch {
			if (!paused) pause.textContent = "Reconnecting"; // the next tick tries again
		}
		setTimeout(tick, 3000);
	};
	setTimeout(tick, 3000);
	pause.hidden = false;
	pause.addEventListener("click", () => {
		paused = !paused;
		show();
	});
}

// The chart shows the numbers of a day: under the pointer, after a touch, and
// with the keyboard, where it is a slider over the days.
let at = -1;

// numbers returns the text of a day, from the table.
function numbers(date) {
	const row = [...document.querySelectorAll("#table tr")].find((row) => row.cells[0].textContent.trim() === date);
	if (!row) return [`${date}: no calls`];
	const cells = [...row.cells].map((cell) => cell.textContent.trim());
	const heads = [...document.querySelectorAll(".days thead th")].map((head) => head.textContent);
	const [admitted, refused] = cells.splice(-2);
	const parts = cells.map((n, i) => `${heads[i]} ${n}`).slice(1).filter((_, i) => cells[i + 1] !== "0");
	return [`${date}: ${admitted} admitted` + (refused === "0" ? "" : `, ${refused} refused`), ...parts];
}

function plot(focus) {
	const area = document.querySelector("#chart .plot");
	if (!area) return;
	const days = Number(area.dataset.days);
	const [tip, mark] = ["tip", "at"].map((name) => {
		const part = document.createElement("div");
		part.className = name;
		part.hidden = true;
		area.append(part);
		return part;
	});

	const show = (day) => {
		at = Math.min(day, days - 1);
		tip.hidden = mark.hidden = at < 0;
		if (at < 0) return;
		const date = new Date(area.dataset.first + "T00:00Z");
		date.setUTCDate(date.getUTCDate() + at);
		const text = numbers(`${date.getUTCDate()} ${date.toLocaleString("en-US", { month: "short", timeZone: "UTC" })}`);
		tip.textContent = text.join("\n");
		area.setAttribute("aria-valuenow", at);
		area.setAttribute("aria-valuetext", text.join(", "));
		const width = area.clientWidth / days;
		mark.style.left = at * width + "px";
		mark.style.width = width + "px";
		const left = at < days / 2 ? (at + 1) * width + 4 : at * width - tip.offsetWidth - 4; // beside the day
		tip.style.left = Math.max(0, left) + "px";
	};
	const under = (event) => {
		const box = area.getBoundingClientRect();
		show(Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * days)));
	};
	const keys = {
		ArrowLeft: () => Math.max(0, at - 1),
		ArrowRight: () => at + 1,
		Home: () => 0,
		End: () => days - 1,
		Escape: () => -1,
	};

	area.tabIndex = 0;
	const role = { role: "slider", "aria-label": "Day", "aria-valuemin": 0, "aria-valuemax": days - 1, "aria-valuenow": 0, "aria-valuetext": "" };
	for (const [name, value] of Object.entries(role)) area.setAttribute(name, value);
	area.addEventListener("pointermove", under);
	area.addEventListener("pointerdown", under);
	area.addEventListener("pointerleave", (event) => {
		if (event.pointerType === "mouse" && document.activeElement !== area) show(-1);
	});
	area.addEventListener("focus", () => at < 0 && show(days - 1));
	area.addEventListener("blur", () => show(-1));
	area.addEventListener("keydown", (event) => {
		const move = keys[event.key];
		if (!move) return;
		event.preventDefault();
		show(move());
	});
	if (at >= 0) show(at);
	if (focus) area.focus({ preventScroll: true });
}
plot(false);
