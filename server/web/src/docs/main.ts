// The API documentation at /docs: Swagger UI over the server's own openapi.json. It loads nothing from other hosts, and
// keeps an API key only until it is closed or reloaded.
import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle.js";
import "swagger-ui-dist/swagger-ui.css";
import "../style/docs.css";

const api = document.getElementById("api")!;
SwaggerUI({
  domNode: api,
  url: "openapi.json",
  deepLinking: true,
  validatorUrl: null, // else Swagger UI sends the address of openapi.json to a service of its makers
});

/** Attributes by which keyboards and screen readers find their way in its markup. A link in a button is no link: the
 * button writes the same address. */
const ATTRIBUTES: [selector: string, name: string, value: string | null][] = [
  ["#servers", "aria-label", "Server"],
  [".information-container", "role", "banner"],
  [".scheme-container", "role", "region"],
  [".scheme-container", "aria-label", "Server and key"],
  ["h3.opblock-tag, .models > h4", "aria-level", "2"],
  [".opblock-section-header h4", "aria-level", "3"],
  ["button a", "href", null],
  ["pre.microlight", "tabindex", "0"],
];
new MutationObserver(() => {
  for (const [selector, name, value] of ATTRIBUTES) {
    for (const element of api.querySelectorAll(selector)) {
      if (value === null) element.removeAttribute(name);
      else element.setAttribute(name, value);
    }
  }
}).observe(api, { childList: true, subtree: true });
