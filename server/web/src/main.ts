// Starts the page: what every tab shares first, then the tabs.

import "./style/base.css";
import "./style/controls.css";
import "./style/paint.css";
import "./style/complete.css";
import "./style/device.css";
import "./style/how.css";
import { allModels } from "./api/models";
import { setUpComplete } from "./complete/panel";
import { setUpDevice } from "./device/panel";
import { setUpHow } from "./how/panel";
import { offerModels } from "./look/model";
import { sayError } from "./look/notice";
import { setUpTabs } from "./look/tabs";
import { setUpTheme } from "./look/theme";
import { finished, setUpPaint } from "./paint/panel";

setUpTheme();
setUpPaint();
setUpComplete(finished);
setUpDevice();
setUpHow();
setUpTabs();
allModels().then(offerModels).catch(sayError);
