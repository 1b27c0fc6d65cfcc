// The API documentation at /docs: Swagger UI over the server's own openapi.json. It loads nothing from other hosts, and
// keeps an API key only until it is closed or reloaded.
import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle.js";
import "swagger-ui-dist/swagger-ui.css";
import "../style/docs.css";

SwaggerUI({
  domNode: document.getElementById("api"),
  url: "openapi.json",
  deepLinking: true,
  onComplete: name,
  validatorUrl: null, // else Swagger UI sends the address of openapi.json to a service of its makers
});

/** Gives its elements the names and levels that they lack. */
function name(): void {
  document.getElementById("servers")?.setAttribute("aria-label", "Server");
  for (const heading of document.querySelectorAll("h3.opblock-tag")) heading.setAttribute("aria-level", "2");
}
