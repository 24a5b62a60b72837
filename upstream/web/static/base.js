// Every page works without this script.

// Copy buttons. They are hidden without this script.
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
			status.textContent = "Press Ctrl+C to copy the selected text.";
		}
	});
}
