// Every page works without this script.

// Copy buttons: data-copy is the id of the element to copy. They are hidden
// without this script. A button says the result for a moment, and so does a
// status for screen readers.
const said = document.createElement("p");
said.className = "unseen";
said.setAttribute("role", "status");
document.querySelector("main").append(said);

for (const button of document.querySelectorAll("[data-copy]")) {
	const text = button.textContent;
	let timer;
	button.hidden = false;
	button.addEventListener("click", async () => {
		const from = document.getElementById(button.dataset.copy);
		let result = "Copied";
		try {
			await navigator.clipboard.writeText(from.textContent);
		} catch {
			// No permission, or no clipboard without HTTPS.
			getSelection().selectAllChildren(from);
			result = "Press Ctrl+C";
		}
		button.textContent = said.textContent = result;
		clearTimeout(timer);
		timer = setTimeout(() => {
			button.textContent = text;
			said.textContent = "";
		}, 3000);
	});
}
