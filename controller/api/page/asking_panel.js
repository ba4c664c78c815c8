// A panel that fetches its data from the controller while it is shown.
import { toast } from "./actions.js";

export class AskingPanel {
  async update() {
    if (this.asking) return;
    this.asking = true;
    try {
      await this.ask();
    } catch (error) {
      if (this.app.live) toast(error.message, true);
    }
    this.asking = false;
  }
}
